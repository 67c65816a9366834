"""What the terminal gets: nothing that could move it, everything within its width, JSON that parses."""

from __future__ import annotations

import json
import time
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from ragforge.domain.access import Clearance
from ragforge.domain.library import FileResult, Labels, Outcome, Progress
from ragforge.domain.sizes import over_limit_text
from ragforge.domain.strategy import Strategy
from ragforge.errors import UserError
from ragforge.interfaces.cli import progress
from ragforge.interfaces.cli.common import Common
from ragforge.interfaces.cli.files import Tally, ending, labels_of
from ragforge.interfaces.cli.output import Column, cut, plain, plain_text, table, wrapped
from ragforge.interfaces.cli.progress import Pace
from ragforge.interfaces.cli.projects import strategy_of
from ragforge.interfaces.records import json_text
from ragforge.interfaces.words import ago, count, duration

ANYTHING = st.text(st.characters(), max_size=60)


@settings(max_examples=100, deadline=None)
@given(ANYTHING)
def test_a_line_for_the_terminal_holds_no_control_character(text: str) -> None:
    shown = plain(text)
    assert not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in shown)
    shown.encode()


def test_escapes_say_what_was_there() -> None:
    assert plain("red\x1b[31m\x07") == "red\\x1b[31m\\x07"
    assert plain("gpj\u202efdp.exe") == "gpj\\u202efdp.exe"
    assert plain("caf\udce9.txt") == "caf\\xe9.txt"
    assert plain("返品 é 👍") == "返品 é 👍"
    assert plain_text("a\tb\r\nc\x9b31m") == "a\tb\nc\\x9b31m"


def test_a_wrapped_text_uses_the_whole_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert wrapped("five " * 10, 10).split("\n") == ["five five five five five five", "          five five five five"]


@settings(max_examples=100, deadline=None)
@given(ANYTHING)
def test_json_is_one_safe_line_that_gives_the_text_back(text: str) -> None:
    line = json_text({"name": text})
    assert json.loads(line) == {"name": text}
    assert line == plain(line) and len(line.splitlines()) == 1
    line.encode()


def test_records_become_json() -> None:
    labels = Labels(tags=("a", "b"), confidentiality=Clearance.RESTRICTED)
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    assert json.loads(json_text({"labels": labels, "outcome": Outcome.READY, "at": moment})) == {
        "labels": {"source_type": "document", "tags": ["a", "b"], "confidentiality": "restricted"},
        "outcome": "ready",
        "at": "2026-01-02T00:00:00+00:00",
    }


COLUMNS = (
    Column("id"),
    Column("name", least=8, most=20),
    Column("size", align_right=True),
    Column("summary", least=10, dropped=True),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.just("12345678"), ANYTHING, st.just("1 KB"), ANYTHING), max_size=5), st.integers(28, 120))
def test_a_table_fits_its_terminal(rows: list[tuple[str, ...]], width: int) -> None:
    lines = table(COLUMNS, rows, width)
    assert len(lines) == len(rows) + 1
    assert all(cell_len(line) <= width for line in lines)


def test_a_table_lines_up_and_is_whole_in_a_pipe() -> None:
    rows = [("1", "返品ポリシーの完全なガイド", "5 B", "s"), ("2", "b", "500 B", "a summary")]
    assert table(COLUMNS, rows, None) == [
        "ID  NAME                         SIZE  SUMMARY",
        "1   返品ポリシーの完全なガイド    5 B  s",
        "2   b                           500 B  a summary",
    ]
    assert table(COLUMNS, rows, 42)[1] == "1   返品ポリシーの完全…     5 B  s"
    assert table(COLUMNS, rows, 28)[0] == "ID  NAME                SIZE"
    assert table(COLUMNS, [], 80) == ["ID  NAME  SIZE  SUMMARY"]
    assert cut("返品", 3) == "返…"


def test_times_and_counts() -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    moments = [timedelta(seconds=5), timedelta(minutes=3), timedelta(hours=30), timedelta(days=45)]
    assert [ago(now - past, now) for past in moments] == ["just now", "3 min ago", "1 d ago", "2026-01-15"]
    assert [duration(s) for s in (0.84, 12.34, 250, 7500)] == ["0.8 s", "12.3 s", "4 min 10 s", "2 h 5 min"]
    assert [count(1, "chunk"), count(3410, "chunk")] == ["1 chunk", "3,410 chunks"]


def test_pace_tells_speed_and_time_left() -> None:
    pace = Pace()
    assert pace.text(Progress("finding", 40, None), "files", 0.0) == "40 files"
    assert pace.text(Progress("reading", 0, 100), "files", 1.0) == "0/100 files"
    embedding = Progress("embedding", 20, 100, chunks=150, embedded=200)
    assert pace.text(embedding, "files", 5.0) == "20/100 files · 200 chunks · 50/s · 16 s left"
    # the first seconds are forgotten: only the last ones count
    reading = Progress("reading", 22, 100, chunks=210, embedded=200)
    assert pace.text(reading, "files", 30.0) == "22/100 files · 210 chunks · 0/s · 16 min 15 s left"
    assert Pace().text(Progress("embedding", 0, None, turns=3), "files", 0.0) == "3 turns"


def test_I17_without_a_terminal_progress_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.05)
    with progress.meter(quiet=False, lines_on_stdout=True) as shown:
        shown.show(Progress("reading", 1, 3))
        time.sleep(0.06)
        shown.show(Progress("reading", 2, 3, chunks=5))
        shown.show(Progress("reading", 3, 3, chunks=9))
    assert capsys.readouterr() == ("", "reading: 2/3 files · 5 chunks\n")
    with progress.meter(quiet=True, lines_on_stdout=False) as shown:
        time.sleep(0.06)
        shown.show(Progress("reading", 3, 3))
    assert capsys.readouterr() == ("", "")


def test_tally_keeps_counts_of_all_and_the_first_failures_only() -> None:
    tally = Tally()
    for number in range(50):
        tally.count(FileResult(f"{number}", Outcome.FAILED if number % 2 else Outcome.READY, chunks=2))
    assert tally.text() == "25 ready, 25 failed"
    assert (tally.failed, len(tally.failures)) == (25, 20)


def test_the_last_line_says_what_came_of_it() -> None:
    def line(*outcomes: Outcome, was_stopped: bool = False, dry_run: bool = False) -> str:
        tally = Tally()
        for outcome in outcomes:
            tally.count(FileResult("x", outcome))
        return ending(tally, 13.9, [Path("docs")], was_stopped=was_stopped, dry_run=dry_run)

    assert line(Outcome.READY, Outcome.UNCHANGED) == "1 ready, 1 unchanged in 13.9 s"
    assert line() == "no files in docs"
    assert line(Outcome.REMOVED, Outcome.REMOVED, dry_run=True) == "2 would be removed"
    assert line(dry_run=True) == "nothing would be removed"
    rest = "Run the same command again for the rest."
    assert line(was_stopped=True) == f"Stopped after 13.9 s: nothing ready yet. {rest}"
    assert line(Outcome.READY, was_stopped=True) == f"Stopped after 13.9 s: 1 ready. {rest}"


def test_labels_from_options() -> None:
    assert labels_of(None, None, None) is None
    assert labels_of("mail", ["a", "b"], "public") == Labels("mail", ("a", "b"), Clearance.PUBLIC)
    for source_type, tags, says in (
        (None, ["a", " "], "empty"),
        ("two words", None, "one word"),
        ("", None, "one word"),
    ):
        with pytest.raises(UserError, match=says):
            labels_of(source_type, tags, None)


def test_the_next_step_is_where_the_user_is() -> None:
    here = Common(workspace=Path("my papers"), project="shop")
    assert here.placed("Why: ragforge ls --status failed") == "Why: ragforge ls -w 'my papers' -p shop --status failed"
    assert here.placed("ragforge init makes one") == "ragforge init -w 'my papers' makes one"
    assert here.placed("ragforge models pull minilm") == "ragforge models pull minilm"
    assert here.placed("ragforge reindex --project x") == "ragforge reindex -w 'my papers' --project x"
    assert Common().placed("ragforge ls") == "ragforge ls"


def test_sizes_over_a_limit_can_be_told_apart() -> None:
    assert over_limit_text(3_400, 1_000) == "3.4 KB is over the limit of 1 KB"
    assert over_limit_text(1_001, 1_000) == "1,001 bytes is over the limit of 1,000"
    assert over_limit_text(120_000_000, 100_000_000) == "120 MB is over the limit of 100 MB"


def test_a_strategy_from_options() -> None:
    base = Strategy(leaf_max=450)
    assert strategy_of(base, None, None) is None
    assert strategy_of(base, None, ["leaf_min=200"]) == Strategy(leaf_min=200, leaf_max=450)
    assert strategy_of(base, "sections", []) == base
    assert strategy_of(base, "chars", ["window_max=1000"]) == Strategy("chars", window_max=1000)
    for size, hint in (
        ("leafmax=2", "leaf_max?"),
        ("leaf_max=x", "=400"),
        ("leaf_max", "=400"),
        ("leaf_max=9", "together"),
    ):
        with pytest.raises(UserError) as caught:
            strategy_of(base, None, [size])
        assert hint in caught.value.hint
