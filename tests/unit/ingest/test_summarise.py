"""One paragraph by extraction."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.documents import Parsed, TextKind
from ragforge.ingest.summarise import summarise
from tests.proof import count

TEXT = """---
title: hidden
---
# Returns

Desks may be returned within thirty days of their delivery. The weather was fine on that day in March.
A refund for returned desks is paid within thirty days. See [the form](http://example.com/form) for returned desks.

| a | b |
| - | - |
| 1 | 2 |

```python
print("This is code and no sentence of the text.")
```
"""


def test_telling_sentences_in_their_order_without_markup() -> None:
    summary = summarise(Parsed(TEXT))
    assert summary.startswith("Desks may be returned within thirty days")
    assert "the form" in summary or "refund" in summary
    for unwanted in ("http://", "|", "#", "print", "hidden"):
        assert unwanted not in summary


def test_a_table_or_code_begins_with_its_beginning() -> None:
    assert summarise(Parsed("| Item | Price |\n| --- | --- |\n| Chair | 40 |", TextKind.TABLE)) == "Item Price Chair 40"
    assert "from __future__" in summarise(Parsed("from __future__ import annotations", TextKind.CODE))
    assert summarise(Parsed("def price():\n    return 40\n", TextKind.CODE)).startswith("def price():")


def test_a_text_without_sentences_gives_its_beginning() -> None:
    assert summarise(Parsed("# Only a heading, with a_name")) == "Only a heading, with a_name"


def test_sentences_end_where_they_do_in_answers() -> None:
    assert summarise(Parsed("Prepared for the board by the lead author Dr. Karin Öberg.")).endswith("Dr. Karin Öberg.")
    assert "vom 9. Februar 2026." in summarise(
        Parsed("Wir bestätigen den Eingang Ihrer Kündigung vom 9. Februar 2026.")
    )


@settings(max_examples=count(26, 80), deadline=None)
@given(st.text(min_size=1, max_size=3000).filter(str.strip), st.sampled_from(TextKind))
def test_it_is_one_bounded_paragraph(text: str, kind: TextKind) -> None:
    summary = summarise(Parsed(text, kind))
    assert len(summary) <= 420 and "\n" not in summary
    assert summary, "every file that has text has a summary"
