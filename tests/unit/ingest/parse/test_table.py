"""Rows and columns as a Markdown table."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.documents import ParseFailure, Reason, TextKind
from ragforge.ingest.parse import registry, table
from ragforge.ingest.parse.table import cell, markdown_table, parse
from ragforge.ingest.parse.text import CannotParse
from tests.proof import count


def lines(text: str, name: str = "a.csv") -> list[str]:
    return parse(text.encode(), name).text.split("\n")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters(delimiter: str) -> None:
    rows = [["name", "price"], ["chair, oak", "9.5"], ["desk; small", "10"]]
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter).writerows(rows)
    expected = ["| name | price |", "| --- | --- |", "| chair, oak | 9.5 |", "| desk; small | 10 |"]
    assert lines(buffer.getvalue()) == expected


def test_decimal_commas_do_not_win_over_semicolons() -> None:
    assert lines("a;b;c\n1,5;2,5;3\n4,5;5;6,1\n")[2] == "| 1,5 | 2,5 | 3 |"


def test_quotes_newlines_bars_and_byte_order_mark() -> None:
    text = '\ufeffa,b\n1,"ha ""ha"" ha"\n2,"two\nlines"\n3,x|y\n'
    assert lines(text) == ["| a | b |", "| --- | --- |", '| 1 | ha "ha" ha |', "| 2 | two lines |", "| 3 | x\\|y |"]


def test_ragged_rows() -> None:
    assert lines("a,b\n1,2,3\n4\n5,6\n\n,,\n") == [
        "| a | b | column 3 |",
        "| --- | --- | --- |",
        "| 1 | 2 | 3 |",
        "| 4 |",
        "| 5 | 6 |",
    ]


def test_titles_above_the_table() -> None:
    parsed = parse(b"Stanley Cups,,\nTeam,Location,Cups\nBlues,STL,1\n", "a.csv")
    assert parsed.title == "Stanley Cups"
    assert parsed.text == "Stanley Cups\n\n| Team | Location | Cups |\n| --- | --- | --- |\n| Blues | STL | 1 |"
    assert parsed.kind is TextKind.TABLE


def test_numbers_only_get_numbered_columns() -> None:
    assert lines("1,2.5\n3,4\n")[:3] == ["| column 1 | column 2 |", "| --- | --- |", "| 1 | 2.5 |"]
    assert lines("2019,2020\n3,4\n")[0] == "| 2019 | 2020 |"
    assert lines("1,2\na,b\n")[0] == "| 1 | 2 |"


def test_one_column_of_text_with_commas() -> None:
    assert lines("Lorem, ipsum\ndolor sit\namet\nadipiscing, elit\nsed do\n")[2:4] == ["| dolor sit |", "| amet |"]


def test_declared_separator() -> None:
    assert lines("sep=;\na;b\n1;2\n")[0] == "| a | b |"


def test_stray_quote_does_not_swallow_the_file() -> None:
    text = "size,name\n" + '5,"unclosed inch\n' + "6,chair\n" * 300
    parsed = parse(text.encode(), "a.csv")
    assert parsed.text.count("| 6 | chair |") == 300
    assert parsed.notes == ("a quote is opened and never closed: quotes kept as written",)


def test_shift_jis() -> None:
    parsed = parse("名前,年齢,住所\n佐藤太郎,30,東京\n三木英子,25,大阪\n".encode("cp932"), "a.csv")
    assert "| 佐藤太郎 | 30 | 東京 |" in parsed.text
    assert parsed.notes == ("encoding guessed: shift_jis",)


def test_long_cells_and_many_rows() -> None:
    text = "a,b\n" + f"{'x' * 200_000},1\n" + "1,2\n" * 20_000
    assert len(lines(text)) == 20_003


def test_nothing_but_separators_is_empty() -> None:
    found = registry.run("table", b",,\n,,\n", "a.csv")
    assert isinstance(found, ParseFailure)
    assert found.reason is Reason.EMPTY


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_CHARACTERS", 100)
    with pytest.raises(CannotParse):
        markdown_table(["a"], (["x" * 30] for _ in range(10)))


CELLS = st.text(alphabet="abcäß東1 ,;|\"'\n\t-", max_size=8)


@settings(max_examples=count(20, 60), deadline=None)
@given(st.integers(2, 4).flatmap(lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=6)))
def test_cells_reappear(rows: list[list[str]]) -> None:
    header = [f"head {number}" for number in range(len(rows[0]) if rows else 2)]
    buffer = io.StringIO()
    csv.writer(buffer).writerows([header, *rows])
    text = parse(buffer.getvalue().encode(), "a.csv").text
    filled = [row for row in rows if any(value.strip() for value in row)]
    assert len(text.split("\n")) == 2 + len(filled)
    for row, line in zip(filled, text.split("\n")[2:], strict=True):
        expected = [cell(value) for value in row]
        while len(expected) > 1 and not expected[-1]:
            expected.pop()
        assert line == "| " + " | ".join(expected) + " |"
