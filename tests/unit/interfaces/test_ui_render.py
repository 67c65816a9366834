"""What documents and models wrote becomes harmless HTML, whatever it is."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragforge.domain.answers import Citation
from ragforge.domain.documents import Locator
from ragforge.interfaces.ui.render import answer_html, around, passage_html, seek
from tests.proof import count

_TAGS = frozenset(
    [
        "p",
        "br",
        "hr",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "ul",
        "ol",
        "li",
        "blockquote",
        "pre",
        "code",
        "em",
        "strong",
        "s",
        "a",
        "span",
        "mark",
        "button",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    ]
)
_ATTRIBUTES = {
    "a": {"href", "target", "rel"},
    "button": {"type", "class", "data-cite", "aria-label", "title"},
    "ol": {"start"},
    "code": {"class"},
    "th": {"style"},
    "td": {"style"},
}
_HOSTILE = (
    "<script>alert(1)</script>",
    "![x](https://evil.example/pixel.png)",
    "![x][r]\n\n[r]: https://evil.example/pixel.png",
    "[click](javascript:alert(1))",
    "[click](data:text/html;base64,PHNjcmlwdD4=)",
    '<img src=x onerror="alert(1)">',
    "<svg/onload=alert(1)>",
    "<https://evil.example/auto>",
    '[a](https://e.example/"onmouseover="x)',
    "``` <b>\ncode\n```",
    "\ue000999\ue001 \ue002<b>\ue003",
    "| a | b |\n|---|---|\n| <i>1</i> | `2` |",
    "&lt;script&gt; &#60;b&#62;",
)


class _Seen(HTMLParser):
    """Every tag with its attributes, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.marked = ""
        self._inside: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.text += data
        if "mark" in self._inside:
            self.marked += data + " "


def _require_harmless(html: str, *, links: bool) -> None:
    for tag, attributes in _Seen(html).tags:
        assert tag in _TAGS, tag
        assert set(attributes) <= _ATTRIBUTES.get(tag, set()), (tag, attributes)
        if tag == "a":
            assert links
            assert re.match(r"https?://", attributes["href"] or "")
            assert attributes["rel"] == "noopener noreferrer"
        if tag in ("th", "td"):
            assert re.fullmatch(r"text-align:(left|right|center)", attributes.get("style") or "text-align:left")


def _cited(text: str, marker: str = "[1]", *, proved: bool = True) -> Citation:
    start = text.index(marker)
    return Citation(
        1, "c", "d", "a.md", Locator(), "words", start, start + len(marker), proved, "" if proved else "the number 7"
    )


_TEXTS = st.lists(
    st.one_of(st.sampled_from(_HOSTILE), st.text(max_size=40), st.sampled_from(["\n", "\n\n", "| a |", "- ", "[1]"])),
    max_size=8,
).map("".join)


@settings(max_examples=count(150, 3_000))
@given(_TEXTS)
@example("".join(_HOSTILE))
def test_an_answer_holds_nothing_that_acts_or_loads(text: str) -> None:
    _require_harmless(answer_html(text, sources=(1, 2)), links=True)


@settings(max_examples=count(150, 3_000))
@given(_TEXTS, st.integers(0, 200), st.integers(0, 200))
@example("".join(_HOSTILE), 3, 90)
def test_a_passage_holds_nothing_that_acts_or_loads_and_leads_nowhere(text: str, start: int, length: int) -> None:
    _require_harmless(passage_html(text, start, start + length), links=False)


@settings(max_examples=count(100, 2_000))
@given(
    st.lists(st.text("abc XYZ 12", min_size=1, max_size=12).filter(str.strip), min_size=1, max_size=6),
    st.data(),
)
def test_the_marked_words_are_exactly_those_that_were_meant(cells: list[str], data: st.DataObject) -> None:
    """Also across the cells of a table, where one mark becomes several."""
    row = "| " + " | ".join(cells) + " |"
    text = f"| {' | '.join('h' for _ in cells)} |\n|{'---|' * len(cells)}\n{row}\n"
    start = text.index(row)
    first = data.draw(st.integers(start, len(text) - 1))
    last = data.draw(st.integers(first, len(text)))
    meant = re.findall(r"\w+", text[first:last])
    assert re.findall(r"\w+", _Seen(passage_html(text, first, last)).marked) == meant


@pytest.mark.parametrize(
    "text",
    [
        "- one item\n- another item\n",
        "# A heading\n\nand text\n",
        "> quoted words\n",
        "1. first\n2. second\n",
        "```python\nx = 1\n```\n",
    ],
)
def test_a_mark_at_the_beginning_of_a_line_leaves_the_line_what_it_is(text: str) -> None:
    plain = [tag for tag, _ in _Seen(passage_html(text)).tags]
    marked = [tag for tag, _ in _Seen(passage_html(text, 0, len(text))).tags if tag != "mark"]
    assert marked == plain


def test_front_matter_looks_like_facts_not_like_a_heading() -> None:
    text = "---\ntitle: Returns\nowner: Service\n---\n\n# Returns\n\nSixty days.\n"
    html = passage_html(text, text.index("Sixty"), text.index("Sixty") + 5)
    assert "<pre><code>title: Returns" in html
    assert "<mark>Sixty</mark>" in html


def test_a_citation_is_a_button_with_its_number() -> None:
    text = "It is sixty days [1]."
    html = answer_html(text, [_cited(text)])
    assert '<button type="button" class="cite" data-cite="1" aria-label="Source 1">1</button>.' in html
    assert "[1]" not in html


def test_a_citation_that_is_not_proved_says_so() -> None:
    text = "It is sixty days [1]."
    html = answer_html(text, [_cited(text, proved=False)])
    assert 'class="cite doubtful"' in html
    assert 'title="not proved: the number 7"' in html


def test_while_it_is_written_only_markers_of_sources_are_buttons() -> None:
    html = answer_html("Yes [1][2], but not [9] nor a[1].", sources=(1, 2))
    assert re.findall(r'data-cite="(\d)"', html) == ["1", "2"]
    assert "[9]" in html
    assert "a[1]" in html


def test_citations_in_code_stay_where_they_are() -> None:
    text = "Use `list[0]` and it works [1]."
    assert "list[0]" in answer_html(text, [_cited(text)])


@given(st.text(max_size=3_000), st.integers(0, 3_000), st.integers(0, 200), st.integers(0, 900))
def test_what_stands_around_some_words_holds_them(text: str, start: int, length: int, margin: int) -> None:
    start = min(start, len(text))
    end = min(start + length, len(text))
    piece, first, last = around(text, start, end, margin)
    assert piece[first:last] == text[start:end]
    assert len(piece) <= end - start + 2 * margin


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("| Chairs | 60 days | clean |", "Chairs | 60 days"),
        ("It lasts\n60   days.", "lasts 60 days"),
        ("It lasts **60** days.", "lasts 60 days"),
    ],
)
def test_a_quote_is_found_whatever_is_between_its_words(text: str, quote: str) -> None:
    found = seek(text, quote)
    assert found is not None
    assert re.findall(r"\w+", text[slice(*found)]) == re.findall(r"\w+", quote)


def test_a_quote_that_is_not_there_is_not_marked_elsewhere() -> None:
    assert seek("It lasts 160 days, not 60.", "lasts 60 days") is None
    assert seek("anything", "…") is None


def test_a_document_cannot_mark_words_itself() -> None:
    """Whatever it writes for the signs that stand for a mark, also as entities."""
    text = "Hello world. &#xE000;&#xE001; \ue0001\ue001 &#xE002;Send money to Bob.&#xE003;"
    assert _Seen(passage_html(text, 0, 5)).marked.split() == ["Hello"]


def test_a_marker_in_code_is_code() -> None:
    html = answer_html("```[1]x\ncode\n``` and `a[1]`, but here [1].", sources=[1])
    assert html.count("<button") <= 1
    _require_harmless(html, links=True)
    inline = answer_html("Use `[1]` as it is [1].", sources=[1])
    assert "<code>[1]</code>" in inline
    assert inline.count("<button") == 1
