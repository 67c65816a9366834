"""HTML: structure kept, noise dropped, charsets right, nothing breaks on bad markup."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.documents import Parsed, ParseFailure, Reason
from ragforge.ingest.parse import registry
from ragforge.ingest.parse.html import parse
from tests.proof import count


def text_of(source: str) -> str:
    return parse(source.encode(), "a.html").text


def test_structure_becomes_markdown() -> None:
    source = """<html><head><title> My
      page </title><style>p {}</style></head><body><nav>Home | About</nav><h1>Top</h1>
      <p>Some <b>bold</b> and <i>italic</i> text,<br>two lines. <code>a_b*c</code></p>
      <h2>List</h2><ul><li>one<ul><li>inner</li></ul></li><li>two</li></ul><ol start="3"><li>three</li></ol>
      <blockquote>said</blockquote><pre>x = 1\n  y</pre><script>alert(1)</script></body></html>"""
    assert parse(source.encode(), "a.html").title == "My page"
    assert text_of(source) == (
        "# Top\n\nSome **bold** and *italic* text,\ntwo lines. `a_b*c`\n\n## List\n\n- one\n  - inner\n- two\n\n"
        "3. three\n\n> said\n\n```\nx = 1\n  y\n```"
    )


def test_words_are_never_torn_by_marks() -> None:
    assert text_of("<p>W<b>o</b>rd snake_case 2*3</p>") == "Word snake_case 2*3"


def test_a_table_keeps_rows_on_one_line() -> None:
    source = """<table><caption>Prices</caption><tr><th>Item<th>Price</tr>
      <tr><td rowspan=2>Chair | stool<td><p>40</p><p>net</p></tr><tr><td>50</tr><tr><td colspan=2>all</table>"""
    assert text_of(source) == (
        "Prices\n\n| Item | Price |\n| --- | --- |\n| Chair \\| stool | 40 net |\n| Chair \\| stool | 50 |\n| all |  |"
    )


WORDS = ("word " * 300).strip()


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (f"<tr><td><h2>News</h2><p>{WORDS}</p></td></tr>", f"## News\n\n{WORDS}"),
        ("<tr><td>one<br><br>two</td></tr><tr><td><ul><li>three</ul></td></tr>", "one\n\ntwo\n\n- three"),
        ("<tr><td><img src=x></td><td>text</td></tr><tr><td></td><td><h1>Top</h1></td></tr>", "text\n\n# Top"),
        ("<tr><td><p>left</p><p>more</p></td><td>right</td></tr>", "left\n\nmore\n\nright"),
        (f"<tr><td>left</td><td>{WORDS}</td></tr>", f"left\n\n{WORDS}"),
        (f"<tr><td>a</td><td><p>{WORDS}</p><p>b</p></td></tr><tr><td>c<td>d</tr>", f"a\n\n{WORDS}\n\nb\n\nc\n\nd"),
        (f"<tr><td>a<td><pre>{WORDS}</pre></tr><tr><td>c<td>d</tr>", f"a\n\n```\n{WORDS}\n```\n\nc\n\nd"),
    ],
    ids=["one cell", "one column", "one column with text", "one row", "one long row", "paragraphs", "code"],
)
def test_layout_tables_are_no_tables(rows: str, expected: str) -> None:
    assert text_of(f"<table>{rows}</table>") == expected


def test_a_table_said_to_be_for_layout_is_no_table() -> None:
    rows = "<tr><td>a<td>b</tr><tr><td>c<td>d</tr>"
    assert text_of(f"<table role=presentation>{rows}</table>") == "a\n\nb\n\nc\n\nd"


def test_a_label_and_its_value_stay_on_one_line() -> None:
    assert text_of("<table><tr><td><p>Total</p></td><td>40 €</td></tr></table>") == "| Total | 40 € |\n| --- | --- |"


def test_one_long_cell_does_not_make_a_data_table_layout() -> None:
    rows = "".join(f"<tr><td>name {number}<td>{'value ' * 60}</tr>" for number in range(9))
    text = text_of(f"<table><tr><th>n<th>v</tr>{rows}<tr><td>last<td><ul><li>{WORDS}<li>b</ul></tr></table>")
    assert text.startswith("| n | v |\n| --- | --- |\n| name 0 | value ")
    assert text.endswith("word - b |")


def test_a_table_inside_a_cell_stays_in_its_row() -> None:
    inner = "<table><tr><td>a<td>b</tr><tr><td>c<td>d</tr></table>"
    assert "| x | a, b; c, d |" in text_of(f"<table><tr><th>h<th>i</tr><tr><td>x<td>{inner}</tr></table>")


def test_links_keep_text_and_target_but_never_run_code() -> None:
    assert text_of('<p><a href="https://e.org/a b">here</a></p>') == "[here](https://e.org/a%20b)"
    assert (
        text_of('<a href="javascript:alert(1)">js</a> <a href="#x">top</a> <a href="data:text/html,x">d</a>')
        == "js top d"
    )


def test_pictures_are_their_alternative_text() -> None:
    assert text_of('<p>See <img src="data:image/png;base64,AAAA" alt="a chair"> now</p>') == "See a chair now"
    assert "http" not in text_of('<p>x <img src="http://tracker.example/p.gif"></p>')


@pytest.mark.parametrize(
    ("data", "guessed"),
    [
        ("\ufeff<p>Käse für 5 €</p>".encode(), False),
        ("<p>Käse für 5 €</p>".encode(), False),
        ("<p>Käse für 5 €</p>".encode("utf-16"), False),
        ('<meta charset="windows-1252"><p>Käse für 5 €</p>'.encode("cp1252"), False),
        ("<p>Käse für 5 €, schön und günstig, größer als üblich</p>".encode("cp1252"), True),
    ],
    ids=["bom", "utf-8", "utf-16", "declared", "guessed"],
)
def test_charset(data: bytes, guessed: bool) -> None:
    parsed = parse(data, "a.html")
    assert "Käse für 5 €" in parsed.text
    assert any("encoding guessed" in note for note in parsed.notes) is guessed


def test_hidden_text_is_noted() -> None:
    parsed = parse(b'<p>seen</p><p style="display: none">obey me</p><p hidden>and me</p>', "a.html")
    assert parsed.notes == ("2 hidden passages",)


@pytest.mark.parametrize("tags", ["<div>", "<font><b>", "<ul><li>", "<table><tr><td>", "<blockquote>"])
def test_unclosed_tags_do_not_break_it(tags: str) -> None:
    text = text_of("<p>start</p>" + tags * 600 + "deep" + "<p>end")
    assert all(word in text for word in ("start", "deep", "end"))


def test_nested_layout_tables_are_read_once() -> None:
    assert text_of("<table><tr><td>" * 60 + "deep" + "</td></tr></table>" * 60) == "deep"
    pair = "<table><tr><td>left</td><td>"
    assert text_of(pair * 30 + "deep" + "</td></tr></table>" * 30).count("deep") == 1


def test_nesting_that_would_lose_text_is_refused() -> None:
    failure = registry.run("html", b"<p>start" + b"<div>" * 50_000 + b"lost", "a.html")
    assert isinstance(failure, ParseFailure)
    assert failure.reason is Reason.HOSTILE


def test_a_page_without_text_is_empty() -> None:
    for source in (b"", b"<html></html>", b"<script>x()</script>", b"<!-- c -->"):
        failure = registry.run("html", source, "a.html")
        assert isinstance(failure, ParseFailure)
        assert failure.reason is Reason.EMPTY


TAGS = st.sampled_from(
    ["<p>", "</p>", "<b>", "</b>", "<table>", "<tr>", "<td colspan=9>", "<li>", "<ol>", "</ol>", "<h1>"]
)


@settings(max_examples=count(33, 100), deadline=None)
@given(st.lists(st.one_of(TAGS, st.from_regex("[a-z]{3,9}", fullmatch=True)), max_size=30))
def test_every_word_survives_any_markup(pieces: list[str]) -> None:
    words = [piece for piece in pieces if not piece.startswith("<")]
    result = registry.run("html", " ".join(pieces).encode(), "a.html")
    text = result.text if isinstance(result, Parsed) else ""
    assert all(word in text for word in words)
