"""What `search` and `explain` show: the right lines, within the width, and nothing that could move the terminal."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from ragforge.domain.documents import Locator
from ragforge.domain.retrieval import Passage, QueryWords, Retrieved, Stage, Trace, Tuning, Verdict
from ragforge.errors import UserError
from ragforge.interfaces.cli.common import Common
from ragforge.interfaces.cli.explain import Explained, settings_of
from ragforge.interfaces.cli.passages import excerpt, heading, place, remark, whole
from ragforge.interfaces.cli.search import beginning, end, print_passages
from ragforge.interfaces.fields.passages import locator_fields
from tests.proof import count

ANYTHING = st.text(st.characters(), max_size=200)
WORDS = st.lists(
    st.sampled_from(["chair", "| a | b |", "返品", "\n", "\x1b[31m", "returns", "# Head", "x" * 40, "---"])
)
RULES = """# Returns and refunds

The time begins on the day after delivery, whatever the carrier says, and it ends as the
table below tells for each group of products that we sell in our shops and on the website.

| Group | Return within |
|---|---|
| Lamps | 30 days |
| Tables | 60 days |
| Chairs and stools | 60 days |
| Mattresses | 100 nights |

## Exchange

An exchange is free once.
"""


def passage(chunk: str, score: float = 0.5, name: str = "a.md", **fields: object) -> Passage:
    given: dict[str, object] = {
        "document": name,
        "source": f"/files/{name}",
        "locator": Locator(),
        "text": f"text of {chunk}",
        "header": "",
        "scores": {},
        "ranks": {},
        **fields,
    }
    return Passage(
        chunk=chunk, name=name, score=score, tokens=3, checksum="", start=0, end=9, version="v",
        project="p", **given,  # type: ignore[arg-type]
    )  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


# -- the lines that are shown


@settings(max_examples=count(33, 100), deadline=None)
@given(st.one_of(ANYTHING, WORDS.map(" ".join)), ANYTHING, st.integers(20, 100))
def test_an_excerpt_is_a_few_safe_lines_that_fit(text: str, question: str, width: int) -> None:
    lines = excerpt(text, (), question, width).lines
    assert len(lines) <= 3
    assert all(cell_len(line) <= width for line in lines)
    assert not any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for line in lines for sign in line)


@settings(max_examples=count(33, 100), deadline=None)
@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs"), include_characters="\n\t")), ANYTHING)
def test_a_whole_passage_is_shown_as_it_stands(text: str, question: str) -> None:
    assert "\n".join(whole(text, question)) == text.strip("\n")


def test_the_lines_with_most_of_the_questions_words_are_chosen() -> None:
    assert excerpt(RULES, (), "is an exchange free?", 80) == (("Exchange",), ["An exchange is free once."])


def test_a_row_of_a_table_comes_with_its_heading_and_the_first_row() -> None:
    under, lines = excerpt(RULES, (), "returning a chair", 100)
    assert under == ("Returns and refunds",)
    assert lines[:2] == ["… | Group | Return within |", "| Chairs and stools | 60 days |"] and len(lines) == 3


def test_headings_that_follow_each_other_become_a_path() -> None:
    text = "intro\n\n## Old\n\n# Chairs\n\n## Returns\n\nA chair returns in 60 days.\n\nAnd a desk.\n"
    assert excerpt(text, (), "chairs returns", 80) == (
        ("Chairs", "Returns"),
        ["A chair returns in 60 days.", "And a desk."],
    )
    assert excerpt("# Chairs\n", (), "chairs", 80) == ((), ["# Chairs"])


def test_a_heading_that_stands_above_the_passage_is_not_repeated() -> None:
    lines = excerpt(RULES, ["Returns and refunds"], "when does the time begin?", 100).lines
    assert lines[0].startswith("The time begins") and lines[-1].endswith(" …")


def test_short_lines_stay_by_themselves_and_full_ones_flow() -> None:
    text = f"name: Sylt\nheight: 62 cm\n\n{'word ' * 15}\n{'more ' * 15}\n"
    assert excerpt(text, (), "sylt", 80).lines == ["name: Sylt", "height: 62 cm", ("word " * 15).strip() + " …"]


def test_words_stand_out_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert excerpt("Returned chairs.", (), "return chair", 80).lines == ["Returned chairs."]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout", Terminal())
    assert excerpt("Returned chairs.", (), "return chair", 80).lines == ["\x1b[1mReturned\x1b[0m \x1b[1mchairs\x1b[0m."]
    assert excerpt("商品の返品は可能", (), "返品", 80).lines == ["商品の\x1b[1m返品\x1b[0mは可能"]
    assert whole("no\x1b[31m chairs", "chair") == ["no\\x1b[31m \x1b[1mchairs\x1b[0m"]
    monkeypatch.setenv("NO_COLOR", "1")
    assert excerpt("Returned chairs.", (), "return chair", 80).lines == ["Returned chairs."]


# -- where a passage stands


def test_a_place_gives_up_its_outer_headings_first() -> None:
    locator = Locator(("Employee handbook", "Money", "Travel"), page=3)
    assert place(locator) == "p. 3 · Employee handbook > Money > Travel"
    assert place(locator, 25) == "p. 3 · … > Money > Travel"
    assert place(locator, 20) == "p. 3 · … > Travel"
    assert place(locator, 9) == "p. 3"
    assert place(Locator(("Employee handbook",)), 9) == "Employee…"
    assert place(Locator(start=61.0)) == "t=1:01"
    assert place(Locator()) == ""


@settings(max_examples=count(33, 100), deadline=None)
@given(ANYTHING, st.lists(ANYTHING, max_size=3), st.lists(ANYTHING, max_size=2), st.integers(20, 100))
def test_the_line_above_a_passage_fits_and_ends_with_the_score(
    name: str, path: Sequence[str], under: Sequence[str], width: int
) -> None:
    line = heading("10", name, passage("c", 0.987, locator=Locator(tuple(path))), under, width)
    assert cell_len(line) == width and line.endswith("  0.99") and line.startswith("10  ")


def test_programs_get_what_is_known_of_a_place() -> None:
    assert locator_fields(Locator()) == {}
    assert locator_fields(Locator(("A", "B"), page=2)) == {"path": ["A", "B"], "page": 2}
    assert locator_fields(Locator(start=0.0, end=4.5, speaker="Mara")) == {
        "time": 0.0,
        "time_end": 4.5,
        "speaker": "Mara",
    }


def test_passages_are_numbered_and_a_tables_header_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    found = [passage(f"c{n}", 1 - n / 20, text=f"passage {n}") for n in range(9)]
    found.append(passage("row", 0.1, "prices.csv", header="| name | eur |\n|---|---|\n", text="| Sylt | 900 |\n"))
    print_passages(Retrieved("sylt", tuple(found)), full=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f" 1  a.md{' ' * 88}1.00", "    passage 0"]
    assert lines[-3:] == [f"10  prices.csv{' ' * 82}0.10", "    | name | eur |", "    | Sylt | 900 |"]


def test_files_with_one_name_are_shown_with_their_folders(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    paths = ("/docs/archive/notes/of/the/year/2024/travel.md", "/docs/notes/of/the/year/2024/travel.md")
    found = [passage(path, name="travel.md", document=path, source=path, text="a train") for path in paths]
    found.append(passage("c", name="other.md", text="a bus"))
    print_passages(Retrieved("train", tuple(found)), full=False)
    headings = [line for line in capsys.readouterr().out.splitlines() if line.endswith("0.50")]
    assert [line.split()[1] for line in headings] == ["archive/…/travel.md", "docs/…/travel.md", "other.md"]


def test_a_notice_is_said_as_a_sentence() -> None:
    assert remark(Retrieved("chair", (), notice="nothing was found")) == "Nothing was found"
    assert remark(Retrieved("chair", ())) == ""


# -- the way of the candidates


def explained(shown: int) -> Explained:
    """Four candidates: `b` repeats `a`; the window has room for `a` alone."""
    candidates = tuple(passage(chunk, score) for chunk, score in (("a", 0.9), ("b", 0.8), ("c", 0.7), ("d", 0.6)))

    def told(stage: Stage, chunk: str, kept: bool, reason: str) -> Verdict:
        return Verdict(stage, chunk, "a.md", Locator(), kept, reason, 0.5)

    verdicts = (
        *(told(Stage.FUSE, each.chunk, True, "found by words") for each in candidates),
        *(told(Stage.DEDUPE, chunk, True, "repeats no better one") for chunk in "acd"),
        told(Stage.DEDUPE, "b", False, "the same as a"),
        told(Stage.WINDOW, "a", True, "in the context"),
        *(told(Stage.WINDOW, chunk, False, "no room") for chunk in "cd"),
    )
    left = tuple(each for each in candidates if each.chunk != "b")
    trace = Trace(QueryWords(), candidates, verdicts, (candidates[1], *left[shown:]), Tuning(k=shown), 0.5, 0, 0)
    return Explained.of("as asked", Retrieved("q", left[:shown], trace=trace))


def test_places_count_what_no_stage_took_out() -> None:
    run = explained(shown=2)
    assert [run.place(chunk) for chunk in "abcdx"] == ["1", "–", "2", "(3)", "–"]


def test_a_candidates_verdict_is_the_one_that_decided() -> None:
    run = explained(shown=2)
    assert [run.verdict(chunk) for chunk in "abcd"] == [
        "window: in the context",
        "dedupe: the same as a",
        "window: no room",
        "beyond the best 2; window: no room",
    ]


def test_programs_get_every_verdict_of_every_candidate() -> None:
    fields = explained(shown=1).fields()
    stages = {each["chunk_id"]: [v["stage"] for v in each["verdicts"]] for each in fields["candidates"]}
    assert stages == {"a": ["fuse", "dedupe", "window"], "b": ["fuse", "dedupe"], "c": stages["a"], "d": stages["a"]}
    assert [each["place"] for each in fields["candidates"]] == [1, None, 2, 3]
    assert fields["near_misses"] == ["b", "c", "d"]


# -- what is typed


def test_a_day_is_meant_whole_and_a_time_exactly() -> None:
    assert end("2026-05-01") - beginning("2026-05-01") == timedelta(days=1)
    assert end("2026-05-01T14:30") == beginning("2026-05-01T14:30")
    assert beginning("2026-05-01T14:30+02:00") == datetime.fromisoformat("2026-05-01T12:30+00:00")


@pytest.mark.parametrize("text", ["yesterday", "", "2026-13-01", "01.05.2026", "2026-05-01T25:00"])
def test_what_is_no_date_is_answered_with_an_example(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="such as 2026-05-01"):
        end(text)


@settings(max_examples=count(33, 100), deadline=None)
@given(st.one_of(ANYTHING, st.dates().map(str), st.datetimes().map(str)))
def test_any_date_is_a_moment_or_a_usage_error(text: str) -> None:
    for read in (beginning, end):
        with suppress(typer.BadParameter):
            assert read(text).tzinfo is not None


def test_settings_to_compare_with_are_read_like_all_settings(tmp_path: Path) -> None:
    common = Common(workspace=tmp_path)
    assert settings_of(common, "alpha=0.2") == {"alpha": 0.2}
    assert settings_of(common, "alpha=-1") == {"alpha": None}
    assert settings_of(common, " fusion=rrf, search.keyword-candidates = 5,reranker=") == {
        "fusion": "rrf",
        "keyword_candidates": 5,
        "reranker": "",
    }


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("alpah=0.2", "alpah is not a setting", "did you mean alpha?"),
        ("cached_questions=1", "cached_questions is not a setting", "use one of: k, "),
        ("k", "k has no value", "--vs k=VALUE"),
        ("", "nothing is not a setting", "use one of: k, "),
        ("alpha=0.2,,k=3", "nothing is not a setting", "use one of: k, "),
        ("alpha=x", "--vs: alpha cannot be 'x'", "a number from 0 to 1"),
        ("fusion=best", "--vs: fusion cannot be 'best'", "one of weighted, rrf"),
        ("k=0", "--vs: k cannot be '0'", "at least 1"),
    ],
)
def test_wrong_settings_to_compare_with_are_refused(tmp_path: Path, text: str, message: str, hint: str) -> None:
    with pytest.raises(UserError) as refused:
        settings_of(Common(workspace=tmp_path), text)
    assert message in refused.value.message and hint in refused.value.hint
