"""PDF: pages, lines and rows as a reader sees them, and a clear word where there is no text."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence

import pypdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.documents import Parsed, ParseFailure, Reason
from ragforge.ingest.parse import registry
from ragforge.ingest.parse.pdf import HYPHEN, _join_broken_words, parse
from tests.pdf_files import Placed, pdf

COLUMNS = (72, 250, 400)
TABLE = (("Item", "Price", "Qty"), ("Oak chair", "40.00", "3"), ("Table", "120.50", "1"))


def page_of(text: str, *parsed: Parsed) -> list[int | None]:
    return [
        [mark.page for mark in one.marks if mark.offset <= one.text.index(text)][-1]
        for one in parsed
        if text in one.text
    ]


def table_cells(by_column: bool, rise: float = 0.0) -> list[Placed]:
    places = [(row, column) for row in range(3) for column in range(3)]
    if by_column:
        places.sort(key=lambda place: (place[1], place[0]))
    return [(COLUMNS[column], 700 - 20 * row + rise * column, TABLE[row][column]) for row, column in places]


def test_pages_are_numbered_from_one() -> None:
    parsed = parse(pdf([[(72, 700, "alpha text")], [(72, 700, "beta text")], [(72, 700, "gamma text")]]), "a.pdf")
    assert [mark.page for mark in parsed.marks] == [1, 2, 3]
    assert [page_of(word, parsed) for word in ("alpha", "beta", "gamma")] == [[1], [2], [3]]
    assert parsed.text == "alpha text\n\nbeta text\n\ngamma text\n\n"


def test_empty_pages_are_counted_and_keep_their_numbers() -> None:
    parsed = parse(pdf([[], [(72, 700, "only here")], []]), "a.pdf")
    assert parsed.notes == ("2 of 3 pages hold no text",)
    assert [mark.page for mark in parsed.marks] == [2]


@pytest.mark.parametrize("by_column", [False, True], ids=["drawn by row", "drawn by column"])
@pytest.mark.parametrize("rise", [0.0, 1.0])
def test_cells_of_a_row_stand_on_one_line(by_column: bool, rise: float) -> None:
    parsed = parse(pdf([table_cells(by_column, rise)]), "a.pdf")
    assert parsed.text.split("\n")[:3] == ["Item Price Qty", "Oak chair 40.00 3", "Table 120.50 1"]


Rows = Sequence[Sequence[str]]
WIDE = [
    ["Part", "Colour", "Depth", "Width", "Stock"],
    ["A-1", "oak", "40", "60", "7"],
    ["B-2", "ash", "45", "80", "12"],
]
LONG = [["No", "Name"], *([str(number), f"Model {number}"] for number in range(1, 31))]
GAPS = [["Room", "Mon", "Tue"], ["Hall", "", "open"], ["Cellar", "shut", ""]]
ACCENTS = [["Stück", "Preis"], ["Bücherregal", "1.299,00 €"], ["Hängelampe", "89,50 €"]]
LEDGER = [["Entry", "Debit", "Credit"], ["Rent", "1 200.00", "0.00"], ["Sale", "0.00", "15 000.00"]]


def grid(rows: Rows, columns: Sequence[float], top: float = 700, leading: float = 20) -> list[Placed]:
    return [
        (columns[column], top - leading * row, text)
        for row, cells in enumerate(rows)
        for column, text in enumerate(cells)
        if text
    ]


def right_aligned(rows: Rows, edges: Sequence[float]) -> list[Placed]:
    return [(x + edges[0] - 6 * len(text), y, text) for x, y, text in grid(rows, [0, *edges[1:]])]


TABLES: dict[str, tuple[list[Placed], Rows]] = {
    "by row": (grid(TABLE, COLUMNS), TABLE),
    "by column": (sorted(grid(TABLE, COLUMNS), key=lambda cell: cell[0]), TABLE),
    "from the bottom": (grid(TABLE, COLUMNS)[::-1], TABLE),
    "five narrow columns": (grid(WIDE, (60, 130, 200, 270, 340)), WIDE),
    "thirty rows": (grid(LONG, (72, 140), leading=18), LONG),
    "tight rows": (grid(TABLE, COLUMNS, leading=13), TABLE),
    "empty cells": (grid(GAPS, COLUMNS), GAPS),
    "accents and a currency sign": (grid(ACCENTS, (72, 300)), ACCENTS),
    "numbers set to the right": (right_aligned(LEDGER, (150, 200, 350)), LEDGER),
    "below a paragraph": ([(72, 740, "Prices of this year, in euro."), *grid(TABLE, COLUMNS)], TABLE),
    "two on one page": (grid(TABLE, COLUMNS) + grid(ACCENTS, (72, 300), top=500), ACCENTS),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_row_is_one_line(name: str) -> None:
    cells, rows = TABLES[name]
    lines = parse(pdf([cells]), "table.pdf").text.split("\n")
    for row in rows:
        assert " ".join(text for text in row if text) in lines


def test_columns_of_prose_are_not_mixed() -> None:
    left = "The left column tells of chairs and their many long legs, line"
    right = "The right column tells of tables that nobody ever sat upon, line"
    cells = [(50.0, 700.0 - 14 * n, f"{left} {n}") for n in range(5)]
    cells += [(450.0, 700.0 - 14 * n, f"{right} {n}") for n in range(5)]
    lines = parse(pdf([cells]), "a.pdf").text.strip().split("\n")
    assert [line for line in lines if line] == [f"{left} {n}" for n in range(5)] + [f"{right} {n}" for n in range(5)]


def test_a_wide_gap_between_lines_is_a_new_paragraph() -> None:
    lines = [(72.0, 700.0, "One"), (72.0, 686.0, "two"), (72.0, 672.0, "three"), (72.0, 630.0, "New paragraph")]
    assert parse(pdf([lines]), "a.pdf").text == "One\ntwo\nthree\n\nNew paragraph\n\n"


def test_outline_entries_become_headings_where_the_page_says_the_same() -> None:
    pages = [[(72.0, 700.0, "1. Refunds"), (72.0, 680.0, "Within 30 days.")], [(72.0, 700.0, "Other text")]]
    parsed = parse(pdf(pages, outline=[("1. Refunds", 0), ("Not on the page", 1)]), "a.pdf")
    assert "# 1. Refunds\n\nWithin 30 days." in parsed.text
    assert "Not on the page" not in parsed.text


def test_a_line_that_only_looks_like_a_heading_is_none() -> None:
    assert parse(pdf([[(72, 700, "# of chairs: 4")]]), "a.pdf").text.startswith("\\# of chairs")


def test_title_comes_from_the_metadata() -> None:
    assert parse(pdf([[(72, 700, "x")]], title="Microsoft Word - Price list"), "a.pdf").title == "Price list"
    assert parse(pdf([[(72, 700, "x")]], title="untitled"), "a.pdf").title is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"con{HYPHEN}tract", "contract"),
        (f"a hormone and blocking; hormone{HYPHEN}blocking", "a hormone and blocking; hormone-blocking"),
        (f"self-made; a self{HYPHEN}made man", "self-made; a self-made man"),
        (f"Anna{HYPHEN}Maria", "Anna-Maria"),
        (f"alone {HYPHEN} here", "alone - here"),
    ],
)
def test_words_broken_at_the_end_of_a_line(text: str, expected: str) -> None:
    assert _join_broken_words(text) == expected


def with_password(data: bytes, user: str, owner: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(data))
    writer.encrypt(user, owner, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_a_password_is_asked_for() -> None:
    failure = registry.run("pdf", with_password(pdf([[(72, 700, "secret")]]), "user", "owner"), "a.pdf")
    assert isinstance(failure, ParseFailure)
    assert (failure.reason, failure.message) == (Reason.ENCRYPTED, "encrypted")
    assert failure.hint


def test_an_empty_user_password_is_no_obstacle() -> None:
    assert "open words" in parse(with_password(pdf([[(72, 700, "open words")]]), "", "owner"), "a.pdf").text


def test_pictures_of_text_need_ocr() -> None:
    failure = registry.run("pdf", pdf([[], []], image=True), "scan.pdf")
    assert isinstance(failure, ParseFailure)
    assert (failure.reason, failure.message) == (Reason.NO_TEXT, "no text layer: needs OCR")
    assert "ocrmypdf" in failure.hint


def test_a_damaged_file_says_so() -> None:
    failure = registry.run("pdf", b"%PDF-1.4\n1 0 obj\n<</Type/Catalog", "a.pdf")
    assert isinstance(failure, ParseFailure)
    assert failure.reason is Reason.CORRUPT


@pytest.mark.parametrize(
    ("whole", "broken"),
    [(b"startxref\n", b"startxref\n9"), (b"%PDF-1.4", b"garbage!")],
    ids=["mended by pdfium", "refused by pdfium, mended by pypdf"],
)
def test_damage_that_can_be_mended(whole: bytes, broken: bytes) -> None:
    parsed = registry.run("pdf", pdf([[(72, 700, "still here")]]).replace(whole, broken), "a.pdf")
    assert isinstance(parsed, Parsed)
    assert "still here" in parsed.text


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 600), st.integers(0, 780), st.text("abc 1é", min_size=1, max_size=12)), max_size=12
    )
)
def test_no_letter_is_lost_wherever_it_stands(cells: list[tuple[int, int, str]]) -> None:
    spread = {(x // 150, y // 30): text for x, y, text in cells}
    placed = [(column * 150.0, row * 30.0 + 20, text) for (column, row), text in spread.items()]
    expected = sorted(letter for _, _, text in placed for letter in text if letter.isalnum())
    result = registry.run("pdf", pdf([placed]), "a.pdf")
    found = result.text if isinstance(result, Parsed) else ""
    assert sorted(letter for letter in found if letter.isalnum()) == expected


def test_two_hundred_pages_take_seconds() -> None:
    page = [
        (72.0, 760.0 - 14 * n, "A line of ordinary prose, as long as lines in letters are, number") for n in range(50)
    ]
    started = time.thread_time()
    parsed = parse(pdf([page] * 200), "a.pdf")
    assert parsed.marks[-1].page == 200
    assert time.thread_time() - started < 10
