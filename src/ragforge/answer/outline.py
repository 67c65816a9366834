"""Outlines: which sections a document has, what each should say, what is searched for it, and what helps if it is open.

    ---
    title: Blueprint
    temperature: 0.3
    max_tokens: 700
    ---
    # Overview
    What is built, for whom, and why.
    - What is the purpose of the project?
    > a project brief or a vision paper

Text says what to write, list items are what is searched for, and a quotation says what to add if nothing is found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from ragforge.answer.headed import Headed, names, read
from ragforge.domain.generation import Sampling

SHIPPED = Path(__file__).parent / "outlines"
SOURCES = "Sources"
"""The heading of the list at the end."""
STRUCTURED = (0.2, 0.4)
"""The least and the highest temperature of a document."""
LEAST_TOKENS, MOST_TOKENS = 64, 16_000
_USUAL = Sampling(temperature=0.3, max_tokens=700)
_KEYS = ("title", "temperature", "max_tokens", "about")
_LEVELS = 4
_NO_END = r"[ \t]++(?!#+[ \t]*$)[^ \t\n]+"
HEADING = re.compile(rf" {{0,3}}(#{{1,6}})(?:[ \t]++(?!#+[ \t]*$)([^ \t\n]+(?:{_NO_END})*+))?+(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class Part:
    """One section of an outline."""

    heading: str
    level: int
    says: str
    """What the section should tell, for whoever writes it."""
    questions: tuple[str, ...]
    """What is searched for it."""
    ingest: str
    """What to add if nothing is found."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The sections of one kind of document, in order."""

    kind: str
    title: str
    parts: tuple[Part, ...]
    sampling: Sampling = _USUAL
    """For each section."""
    about: str = ""


def kinds(own: Path | None = None) -> tuple[str, ...]:
    """Every kind of document that can be made."""
    return tuple(names(SHIPPED, own))


def outline(kind: str, own: Path | None = None) -> Outline:
    """The outline of a kind of document: the user's own, or the shipped one."""
    return _outline(read(kind, SHIPPED, own, _KEYS, "kind of document"))


def _outline(file: Headed) -> Outline:
    parts: list[Part] = []
    for heading, level, lines in _sections(file):
        if not heading:
            raise file.problem("a heading has no words", "write them after the #")
        if heading.casefold() in (SOURCES.casefold(), *(part.heading.casefold() for part in parts)):
            raise file.problem(f"the heading {heading!r} is there already", "give every section a heading of its own")
        if level > (parts[-1].level + 1 if parts else 1):
            raise file.problem(f"{heading!r} is {level} levels deep", "begin with #, and go one level deeper at a time")
        parts.append(_part(file, heading, level, lines))
    if not parts:
        raise file.problem("there is no heading", "write # Overview, and below it what is searched: - What is it?")
    return Outline(
        file.name,
        file.header.get("title", file.name.replace("-", " ").capitalize()),
        tuple(parts),
        Sampling(
            file.number("temperature", _USUAL.temperature, *STRUCTURED),
            int(file.number("max_tokens", _USUAL.max_tokens, LEAST_TOKENS, MOST_TOKENS)),
        ),
        file.header.get("about", ""),
    )


def _sections(file: Headed) -> list[tuple[str, int, list[str]]]:
    sections: list[tuple[str, int, list[str]]] = []
    for line in file.body.split("\n"):
        if match := HEADING.match(line):
            sections.append((match[2] or "", len(match[1]), []))
        elif sections:
            sections[-1][2].append(line.strip())
        elif line.strip():
            raise file.problem(f"{line.strip()[:60]!r} stands above the first heading", "begin with a heading")
    return sections


def _part(file: Headed, heading: str, level: int, lines: Sequence[str]) -> Part:
    if level > _LEVELS:
        raise file.problem(f"{heading!r} is {level} levels deep", f"use at most {_LEVELS}")
    questions = tuple(line[2:].strip() for line in lines if line.startswith(("- ", "* ")))
    if not questions:
        raise file.problem(f"{heading!r} has nothing to search for", "add a question below it, as a list item")
    ingest = " ".join(line.lstrip("> ") for line in lines if line.startswith(">"))
    says = " ".join(line for line in lines if line and not line.startswith(("- ", "* ", ">")))
    return Part(heading, level, says, questions, ingest or f"a document on {heading.lower()}")


# -- a text beside its outline


def headings(text: str) -> list[tuple[int, str, str]]:
    """The headings of a Markdown text with their level and what stands below; lines of code are none."""
    found: list[tuple[int, str, list[str]]] = []
    fence = ""
    for line in text.split("\n"):
        fence = fence_after(fence, line)
        match = None if fence else HEADING.match(line)
        if match:
            found.append((len(match[1]), match[2] or "", []))
        elif found:
            found[-1][2].append(line)
    return [(level, heading, "\n".join(lines).strip()) for level, heading, lines in found]


def fence_after(fence: str, line: str) -> str:
    """The fence of the code that a line leaves open, if `fence` was open before it."""
    match = _FENCE.match(line)
    if not match:
        return fence
    if not fence:
        return "" if "`" in line[match.end() :] and match[1][0] == "`" else match[1]
    closes = match[1][0] == fence[0] and len(match[1]) >= len(fence) and not line[match.end() :].strip()
    return "" if closes else fence


def differences(wanted: Outline, text: str) -> list[str]:
    """What the outline asks for and a text does not have, and the other way round; in words."""
    found = headings(text)
    if found and found[-1][1] == SOURCES:
        found = found[:-1]
    names_wanted = [(part.level, part.heading) for part in wanted.parts]
    names_found = [(level, heading) for level, heading, _ in found]
    missing = [name for level, name in names_wanted if (level, name) not in names_found]
    invented = [name for level, name in names_found if (level, name) not in names_wanted]
    problems = [f"the section “{name}” is missing" for name in missing]
    problems += [f"the heading “{name}” is not in the outline" for name in invented]
    problems += [f"the section “{heading}” is empty" for _, heading, body in found if not body]
    if not problems:
        pairs = zip_longest(names_wanted, names_found)
        problems += [f"“{other[1]}” is out of order" for one, other in pairs if other and one != other][:1]
    return problems
