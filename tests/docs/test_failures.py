"""Every test that the documentation calls a proof is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("docs/FAILURES.md", "docs/explain/threat-model.md")


@pytest.mark.parametrize("page", PAGES)
def test_proofs_are_there(page: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / page).read_text(encoding="utf-8"))
    assert len(named) > 10
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / file).exists() or (test and f"def {test}(" not in (ROOT / file).read_text(encoding="utf-8"))
    ]
    assert not missing


def test_every_row_of_failures_names_a_proof_or_says_that_there_is_none() -> None:
    rows = [line for line in (ROOT / PAGES[0]).read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    facts = [row for row in rows if not row.startswith(("| What happens", "|---"))]
    assert len(facts) > 30
    unproved = [row for row in facts if "`tests/" not in row and "not tested" not in row and "are not |" not in row]
    assert not unproved
