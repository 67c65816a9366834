"""An answer in the terminal: its text as it comes, its sources, and what a person should know of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, Self

import typer

from ragforge.domain.answers import Abstention, Answer, Citation, DoneEvent, Event, Result, RetrievalEvent, TokenEvent
from ragforge.domain.documents import Locator
from ragforge.errors import NotFound
from ragforge.interfaces.cli.common import Common
from ragforge.interfaces.cli.names import names_of
from ragforge.interfaces.cli.output import cut, one_line, paint, plain, plain_text, print_data, print_json, say
from ragforge.interfaces.cli.passages import columns, files_of, warn
from ragforge.interfaces.fields.answers import event_fields
from ragforge.interfaces.words import count, spent

if TYPE_CHECKING:
    from ragforge.app import Ragforge
    from ragforge.domain.conversation import Turn

Cite = Annotated[
    Literal["place", "page", "time", "chunk"],
    typer.Option("--cite", help="How sources are written: where they stand, by page, by time, or by chunk"),
]


class Waiting:
    """A line on the terminal while there is nothing to read yet; it goes away."""

    def __init__(self, common: Common) -> None:
        is_wanted = not (common.quiet or common.json) and os.environ.get("TERM") != "dumb"
        self._is_wanted = is_wanted and sys.stderr.isatty()
        self._is_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, text: str) -> None:
        if self._is_wanted:
            self._write(f"\r\x1b[K{text}")
            self._is_shown = True

    def clear(self) -> None:
        if self._is_shown:
            self._write("\r\x1b[K")
            self._is_shown = False

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


# -- as it comes


def show(common: Common, events: Iterator[Event], *, stream: bool = False) -> Result:
    """The text on stdout as it comes; for programs nothing, or with `stream` every event as a line."""
    with Waiting(common) as waiting, closing(events):  # type: ignore[type-var]
        waiting.show("Looking …")
        text = _Text()
        try:
            for event in events:
                if common.json and stream:
                    print_json(event_fields(event))
                elif isinstance(event, RetrievalEvent) and not common.json:
                    waiting.clear()
                    _say_rewritten(common, event)
                    waiting.show(f"Reading {count(len(event.sources), 'passage')} …")
                elif isinstance(event, TokenEvent) and not common.json:
                    waiting.clear()
                    text.write(event.text)
                if isinstance(event, DoneEvent):
                    return event.result
        finally:
            text.end()
    raise AssertionError("a stream ends with its result")


class _Text:
    """What is printed of an answer so far; other things begin on a line of their own."""

    def __init__(self) -> None:
        self._last = ""

    def write(self, piece: str) -> None:
        sys.stdout.write(plain_text(piece))
        sys.stdout.flush()
        self._last = piece or self._last

    def end(self) -> None:
        if self._last and not self._last.endswith("\n"):
            print_data()


def _say_rewritten(common: Common, event: RetrievalEvent) -> None:
    if event.shape.rewritten:
        common.say(f"Understood as: {one_line(event.shape.standalone)}")


def show_rest(common: Common, forge: Ragforge, result: Result, cite: str) -> None:
    """What comes after the text: the sources, or why there is no answer; on stderr what a person should know."""
    if isinstance(result, Abstention):
        _print_abstention(common, result)
    elif result.citations:
        print_data()
        for line in source_lines(result, names_in(common, forge, result), cite):
            print_data(line)
    _say_remarks(common, result)


# -- sources


def names_in(common: Common, forge: Ragforge, answer: Answer | Turn) -> Mapping[str, str]:
    """What to call each cited file, by its id; those that are called the same are told apart."""
    named = {citation.document: citation.name for citation in answer.citations}
    if len(set(named.values())) < len(named):
        with suppress(NotFound):  # removed meanwhile
            return names_of(forge.find(list(named), project=common.project_in(forge)))
    return named


def source_lines(answer: Answer | Turn, names: Mapping[str, str], cite: str) -> list[str]:
    """`[1] returns.md > Chairs, p. 3`: every cited place once, by its marker."""
    cited = sorted(answer.citations, key=lambda citation: citation.marker)
    lines = (f"[{each.marker}] {_written(replace(each, name=names[each.document]), cite)}" for each in cited)
    return list(dict.fromkeys(map(plain, lines)))


def _written(citation: Citation, cite: str) -> str:
    from ragforge.answer.citations import CitationStyle, formatted

    if cite != CitationStyle.PLACE:
        return formatted(citation, CitationStyle(cite))
    return title(citation.name, citation.locator)


def title(name: str, locator: Locator) -> str:
    """A file with its headings, and its page or time: `returns.md > Chairs, p. 3`."""
    is_counted = locator.page is not None or locator.start is not None
    return one_line(" > ".join((name, *locator.path)) + (f", {locator.label()}" if is_counted else ""))


# -- no answer


def _print_abstention(common: Common, abstention: Abstention) -> None:
    print_data(plain_text(common.placed(abstention.text)))
    if abstention.nearest:
        print_data()
        print_data("Nearest:")
    for line in nearest_lines(abstention):
        print_data(line)


def nearest_lines(abstention: Abstention) -> list[str]:
    """Name, place and first words of the passages that come nearest, a line each."""
    names = files_of(abstention.nearest)
    return [
        cut(f"- {title(names[each.document], each.locator)}: {one_line(each.text).lstrip('#|- ')}", columns())
        for each in abstention.nearest
    ]


# -- what a person should know


def _say_remarks(common: Common, result: Result) -> None:
    account = result.account
    if isinstance(result, Answer):
        for told in _doubts(result):
            say(f"{paint('Warning:', 'yellow', sys.stderr)} {one_line(told)}")
    warn(common, account)
    for notice in account.notices:
        common.say(f"Note: {one_line(notice)}")
    if isinstance(result, Answer) and result.quoted and not account.model:
        common.say("Quoted from the files as they stand: no language model was asked")
    if account.usage.calls:
        common.say(f"{plain(account.model)}: {spent(account.usage)}")


def _doubts(answer: Answer) -> Iterator[str]:
    """What the check found wrong with an answer."""
    for sentence in answer.unproved:
        yield f"not borne out by what it cites: “{sentence}”"
    reasons = {(each.marker, each.reason): None for each in answer.citations if not each.proved}
    for marker, reason in reasons:
        yield f"[{marker}]: {reason}"
    for removed in answer.removed:
        yield f"a citation was removed, {removed.marker}: {removed.reason}"
    for stripped in answer.stripped:
        yield f"taken out of the answer: {stripped}"
    if answer.uncited:
        yield f"{count(answer.uncited, 'sentence cites', 'sentences cite')} no source"
