"""Text of a model or a document that is one sign over and over again takes no longer than other text of its length."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from pydantic_ai.messages import ModelResponse, TextPart

from ragforge.adapters.models.shapes import form_of
from ragforge.answer.citations import check, proving
from ragforge.answer.clean import links_in
from ragforge.answer.quotations import bullets
from ragforge.answer.quote import Quoted
from ragforge.answer.shown import shown
from ragforge.answer.sources import paths_in
from ragforge.answer.stream import clean
from ragforge.answer.units import units
from ragforge.assemble.condense import Draft, DraftStatement, checked
from ragforge.assemble.inject import named_files, packed
from ragforge.domain.generation import Usage
from ragforge.retrieve.words import terms_of
from tests.proof import count
from tests.unit.answer.support import source

PER_SECOND = 8_000
"""Characters that are read in a second at least. What was quadratic took 2.5 seconds for these, and more for more."""
RUNS = (".", ". ", "1", "1,", "1. ", "a", "[1]", " [1]", ")", '"', "# ", "`", "|", "-", "*", "<a", "&", "\n", " ")
SOURCES = [source(1, "A chair has 60 days.")]


def condensed(text: str) -> object:
    statements = tuple(DraftStatement(f"A chair has {days} days.", (1,)) for days in range(60, 65))
    return checked(
        Draft((*statements, DraftStatement(text, (1,))), (), ()),
        "How long?",
        [source(1, text)],
        proving(terms_of),
        Usage(),
    )


TAKE: dict[str, Callable[[str], object]] = {
    "an answer": lambda text: check(text, SOURCES, terms_of),
    "a source": lambda text: check("A chair has 60 days [1].", [source(1, text)], terms_of),
    "a stream": lambda text: clean(text, SOURCES),
    "addresses": lambda text: links_in([text]),
    "units": units,
    "headings": lambda text: paths_in(source(1, text)),
    "a quotation": lambda text: shown([Quoted(1, 0, len(text) + 2, text, 1.0)], [source(1, f"a {text}")]),
    "a list of quotations": lambda text: bullets([Quoted(1, 0, len(text), text, 1.0)]),
    "statements": condensed,
    "a form": lambda text: form_of(Draft).said(ModelResponse(parts=[TextPart(text)])),
    "names of files": lambda text: named_files(text, []),
    "a file": lambda text: packed(text, "How long is a chair ours?", 500, len),
}


@pytest.mark.parametrize("taken", TAKE)
def test_long_runs_of_one_sign_are_read_quickly(taken: str) -> None:
    size = count(8_000, 32_000)
    for run in RUNS:
        long = run * (size // len(run))
        for text in (long, f"x {long}!x\n\nmore", f"```{long}x"):
            begun = time.thread_time()
            TAKE[taken](text)
            assert time.thread_time() - begun < size / PER_SECOND, repr(text[:20])
