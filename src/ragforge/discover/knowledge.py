"""What the interviewer knows: two modes, each with core instructions, seven probes and eight patterns, as data.

Looked up by key, never searched. The shipped files are TOML beside this one; a file of the same name in the workspace's
folder `discovery` replaces, by key, the probes, patterns and texts that it has.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ragforge.errors import UserError

SHIPPED = Path(__file__).parent / "modes"
MODES = ("problem", "solution")
"""In their order: the problem is understood before a solution is shaped."""
PROBES, PATTERNS = 7, 8
_KEY = re.compile(r"[a-z][a-z-]*")
_MOST_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the document."""

    key: str
    heading: str
    says: str


@dataclass(frozen=True, slots=True)
class Criterion:
    """What must be known before a probe is done."""

    key: str
    text: str
    section: str
    signals: tuple[str, ...]
    critical: bool = False
    """An unproved claim about it would have a high impact."""


@dataclass(frozen=True, slots=True)
class Question:
    """Something to ask, and the criterion that it serves."""

    ask: str
    criterion: str
    probe: str = ""
    """Of a pattern's questions: the probe whose criterion it is."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Questions about one thing, asked together."""

    name: str
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What to ask when an answer sounds like this."""

    ask: str
    criterion: str
    signals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """One line of questioning."""

    key: str
    title: str
    purpose: str
    when: str
    signals: tuple[str, ...]
    good_answer: str
    criteria: tuple[Criterion, ...]
    clusters: tuple[Cluster, ...]
    follow_ups: tuple[FollowUp, ...] = ()

    def criterion(self, key: str) -> Criterion | None:
        return next((each for each in self.criteria if each.key == key), None)

    def path(self, criterion: str) -> str:
        """The name of one of its criteria among all."""
        return f"{self.key}.{criterion}"

    @property
    def text(self) -> str:
        """As a model reads it."""
        clusters = "\n".join(
            f"- {each.name}: {' '.join(question.ask for question in each.questions)}" for each in self.clusters
        )
        follow_ups = "\n".join(f"- on “{' / '.join(each.signals[:3])}”: {each.ask}" for each in self.follow_ups)
        criteria = "\n".join(f"- {each.key} (section {each.section}): {each.text}" for each in self.criteria)
        return (
            f"Probe {self.key}: {self.title}\n{self.purpose}\nWhen: {self.when}\nA good answer: {self.good_answer}\n"
            f"Done when:\n{criteria}\nQuestion clusters:\n{clusters}"
        ) + (f"\nFollow-ups:\n{follow_ups}" if follow_ups else "")


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is typical of a domain."""

    key: str
    title: str
    about: str
    signals: tuple[str, ...]
    look_for: tuple[str, ...]
    questions: tuple[Question, ...] = ()
    assumptions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """As a model reads it."""
        asked = " ".join(each.ask for each in self.questions)
        return (
            f"Pattern {self.key}: {self.title}\n{self.about}\nLook for: {'; '.join(self.look_for)}\nAsk: {asked}\n"
            f"Often assumed: {'; '.join(self.assumptions)}"
        )


@dataclass(frozen=True, slots=True)
class Mode:
    """One half of discovery."""

    name: str
    title: str
    document: str
    """What it ends in."""
    opening: str
    core: str
    sections: tuple[Section, ...]
    probes: Mapping[str, Probe]
    """By key, in their order."""
    patterns: Mapping[str, Pattern]

    def criterion(self, path: str) -> Criterion | None:
        """By `probe.criterion`."""
        probe, _, key = path.partition(".")
        return self.probes[probe].criterion(key) if probe in self.probes else None

    def section(self, key: str) -> Section | None:
        return next((each for each in self.sections if each.key == key), None)

    @property
    def paths(self) -> list[str]:
        """Every criterion, in the order of the probes."""
        return [probe.path(each.key) for probe in self.probes.values() for each in probe.criteria]


Knowledge = Mapping[str, Mode]


def load(folder: Path | None = None) -> dict[str, Mode]:
    """Both modes; what the folder has of them replaces the shipped."""
    modes = {name: _mode(name, folder) for name in MODES}
    for keys in (
        [[*mode.probes] for mode in modes.values()],
        [[one.key for one in m.sections] for m in modes.values()],
    ):
        if twice := set(keys[0]) & set(keys[1]):
            where = folder or SHIPPED
            raise UserError(f"{where}: both modes have {min(twice)!r}", hint="give each a key of its own")
    return modes


def _mode(name: str, folder: Path | None) -> Mode:
    own = folder / f"{name}.toml" if folder is not None else None
    if own is None or not own.is_file():
        return _shipped(name)
    read = _Reader(own)
    return read.mode(_merged(_table(SHIPPED / f"{name}.toml"), _table(own), read), name)


@cache
def _shipped(name: str) -> Mode:
    path = SHIPPED / f"{name}.toml"
    return _Reader(path).mode(_table(path), name)


def _table(path: Path) -> dict[str, Any]:
    try:
        raw = path.read_bytes()
        if len(raw) > _MOST_BYTES:
            raise UserError(f"{path} is larger than {_MOST_BYTES:,} bytes", hint="leave out what is as shipped")
        return tomllib.loads(raw.decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise UserError(f"{path}: {problem}", hint="mend the file, or remove it to have the shipped one") from None


def _merged(shipped: dict[str, Any], own: dict[str, Any], read: _Reader) -> dict[str, Any]:
    """The shipped table with what the own one has: texts as a whole, items of lists by their key."""
    if unknown := sorted(set(own) - set(shipped)):
        raise read.problem(f"nothing is called {unknown[0]!r}", f"it may have {', '.join(shipped)}")
    merged = shipped | {key: value for key, value in own.items() if isinstance(value, str)}
    for key in ("sections", "probes", "patterns"):
        mine = {read.text(each, "key"): each for each in read.tables(own, key)}
        merged[key] = [mine.pop(each["key"], each) for each in shipped[key]] + list(mine.values())
    return merged


@dataclass(frozen=True, slots=True)
class _Reader:
    """A file that is checked while it is read; what is wrong is told with its place."""

    path: Path

    def problem(self, message: str, hint: str) -> UserError:
        return UserError(f"{self.path}: {message}", hint=hint)

    def mode(self, table: dict[str, Any], name: str) -> Mode:
        if self.text(table, "name") != name:
            raise self.problem(f"its name is {table['name']!r}", f"the file of that name must say name = {name!r}")
        sections = tuple(
            Section(self.key(each), self.text(each, "heading"), self.text(each, "says"))
            for each in self.tables(table, "sections", least=1)
        )
        self.unique(sections, "section")
        known = [each.key for each in sections]
        probes = tuple(self.probe(each, known) for each in self.tables(table, "probes"))
        patterns = tuple(self.pattern(each, probes) for each in self.tables(table, "patterns"))
        self.unique(probes, "probe")
        self.unique(patterns, "pattern")
        for found, wanted, what in ((probes, PROBES, "probes"), (patterns, PATTERNS, "patterns")):
            if len(found) != wanted:
                raise self.problem(f"there are {len(found)} {what}", f"there must be {wanted}; use their keys")
        if unfilled := set(known) - {each.section for probe in probes for each in probe.criteria}:
            raise self.problem(f"nothing fills the section {min(unfilled)!r}", "name it in a criterion")
        return Mode(
            name,
            self.text(table, "title"),
            self.text(table, "document"),
            self.text(table, "opening"),
            self.text(table, "core"),
            sections,
            {each.key: each for each in probes},
            {each.key: each for each in patterns},
        )

    def probe(self, table: dict[str, Any], sections: Collection[str]) -> Probe:
        key = self.key(table)
        criteria = tuple(self.criterion(each, key, sections) for each in self.tables(table, "criteria", least=1))
        self.unique(criteria, f"criterion of {key}")
        known = {each.key for each in criteria}
        clusters = tuple(
            Cluster(
                self.text(each, "name"),
                tuple(self.question(one, known, key) for one in self.tables(each, "questions", least=1)),
            )
            for each in self.tables(table, "clusters", least=1)
        )
        if unasked := known - {question.criterion for cluster in clusters for question in cluster.questions}:
            raise self.problem(f"no question of {key} serves {min(unasked)!r}", "add one to a cluster")
        follow_ups = tuple(
            FollowUp(self.text(each, "ask"), self.one_of(each, "criterion", known, key), self.words(each, "signals"))
            for each in self.tables(table, "follow_ups")
        )
        return Probe(
            key,
            self.text(table, "title"),
            self.text(table, "purpose"),
            self.text(table, "when"),
            self.words(table, "signals"),
            self.text(table, "good_answer"),
            criteria,
            clusters,
            follow_ups,
        )

    def criterion(self, table: dict[str, Any], probe: str, sections: Collection[str]) -> Criterion:
        section = self.one_of(table, "section", sections, probe)
        critical = table.get("critical", False) is True
        return Criterion(self.key(table), self.text(table, "text"), section, self.words(table, "signals"), critical)

    def question(self, table: dict[str, Any], criteria: Collection[str], probe: str) -> Question:
        return Question(self.text(table, "ask"), self.one_of(table, "criterion", criteria, probe))

    def pattern(self, table: dict[str, Any], probes: Sequence[Probe]) -> Pattern:
        key, by_key = self.key(table), {each.key: each for each in probes}
        questions = []
        for each in self.tables(table, "questions"):
            probe = by_key[self.one_of(each, "probe", by_key, key)]
            criterion = self.one_of(each, "criterion", [one.key for one in probe.criteria], key)
            questions.append(Question(self.text(each, "ask"), criterion, probe.key))
        return Pattern(
            key,
            self.text(table, "title"),
            self.text(table, "about"),
            self.words(table, "signals"),
            self.words(table, "look_for"),
            tuple(questions),
            self.words(table, "assumptions"),
        )

    # -- values

    def text(self, table: Mapping[str, Any], key: str) -> str:
        value = table.get(key)
        if not isinstance(value, str) or not value.strip():
            whose = f" of {table['key']!r}" if isinstance(table.get("key"), str) and key != "key" else ""
            raise self.problem(f"{key}{whose} is missing or no text", f'write {key} = "…"')
        return value.strip()

    def key(self, table: Mapping[str, Any]) -> str:
        key = self.text(table, "key")
        if not _KEY.fullmatch(key):
            raise self.problem(f"{key!r} is no key", "use small letters and hyphens")
        return key

    def one_of(self, table: Mapping[str, Any], key: str, known: Collection[str], where: str) -> str:
        value = self.text(table, key)
        if value not in known:
            raise self.problem(f"{where} names the {key} {value!r}", f"there are {', '.join(sorted(known))}")
        return value

    def words(self, table: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = table.get(key, [])
        if not isinstance(value, list) or not value or not all(isinstance(each, str) and each for each in value):
            raise self.problem(f"{key} of {table.get('key', '?')!r} is empty or no list of texts", f'{key} = ["…"]')
        return tuple(value)

    def tables(self, table: Mapping[str, Any], key: str, least: int = 0) -> list[dict[str, Any]]:
        value = table.get(key, [])
        if not isinstance(value, list) or len(value) < least or not all(isinstance(each, dict) for each in value):
            raise self.problem(f"{key} of {table.get('key', 'the file')!r} is missing or no list", f"write [[{key}]]")
        return value

    def unique(self, items: Sequence[Section | Probe | Pattern | Criterion], what: str) -> None:
        keys = [each.key for each in items]
        if twice := next((key for key in keys if keys.count(key) > 1), ""):
            raise self.problem(f"the {what} {twice!r} is there twice", "give each a key of its own")


# -- signals


Stems = Callable[[str], Sequence[str]]
"""The terms of a text, in their order."""


def signalled(signals: Sequence[str], terms: Sequence[str], stems: Stems) -> int:
    """How many of the signals occur in a text that has these terms; a phrase word after word."""
    return len(_heard(signals, terms, stems))


def strength(signals: Sequence[str], terms: Sequence[str], stems: Stems) -> int:
    """How much they tell together: a phrase is less of a chance than a word."""
    return sum(1 + len(each.split()) for each in _heard(signals, terms, stems))


def _heard(signals: Sequence[str], terms: Sequence[str], stems: Stems) -> list[str]:
    text = f" {' '.join(terms)} "
    return [each for each in signals if f" {' '.join(stems(each))} " in text]
