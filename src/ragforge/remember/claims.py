"""What a sentence or a line of a file states of something: a figure, a switch, a name, or that it is or is not so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, lru_cache

from ragforge.remember.words import Words, sentences, uncited


class Kind(StrEnum):
    """What a claim states of its subject."""

    NUMBER = "number"
    SWITCH = "switch"
    NAME = "name"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement: what it is about, and what it says of that."""

    subject: frozenset[str]
    kind: Kind
    value: str
    unit: str
    negated: bool
    text: str
    around: frozenset[str] = frozenset()
    """Words that may be named with it: the section it stands in, the file's name."""

    def compares_with(self, other: Claim) -> bool:
        """Whether this claim of the chat speaks of the same thing as that one, in the same measure."""
        return (
            self.kind is other.kind
            and other.subject <= self.subject <= other.subject | other.around
            and (not self.unit or not other.unit or self.unit == other.unit)
        )

    def contradicts(self, other: Claim) -> bool:
        """Whether both cannot be true, given that they compare."""
        if self.value == other.value:
            return self.negated != other.negated
        return not (self.negated or other.negated)


# -- of sentences

FIGURE = re.compile(r"\d+(?:[.,]\d+)*")
_CLAUSE = re.compile(
    r"[;,](?=\s)|:\s(?=.{0,200}\s(?:is|are|ist|sind)\s)|\s(?:and|but|while|whereas|und|aber|et|mais|y|pero)\s"
)
_NUMBER = re.compile(r"(?<![\w.-])[vV]?(-?\d+(?:[.,]\d+){0,6})(?:[ \t]?(%|[^\W\d_]{1,12}))?(?![\w-])")
_NOT = re.compile(r"\b(?:not|never|no longer|cannot|nicht|kein\w*|nie|pas|jamais|nunca)\b|n['’]t\b", re.IGNORECASE)
_UNSURE = re.compile(
    r"\b(?:was|were|used to|previously|formerly|before|if|would|could|might|may|should|perhaps|maybe|suppose|war|waren"
    r"|früher|falls|wenn|était|si)\b",
    re.IGNORECASE,
)
"""What was once, or may be, contradicts nothing that is."""
_ON = frozenset(("true", "on", "yes", "enabled", "active", "an", "aktiviert", "activé"))
_OFF = frozenset(("false", "off", "no", "disabled", "inactive", "aus", "deaktiviert", "désactivé"))
_STATES = re.compile(
    r"(?:\b(?:is|are|equals|be|set|turned|switched|defaults|ist|sind|est|sont|es|son)\b|[=:]\s)(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_VALUE = re.compile(
    r"\s*(?:(?:now|currently|set|to|turned|switched|jetzt)\s+)*(?P<written>[`\"'“]?(?P<value>[\w./:@+#-]*[\w+#])[`\"'”]?)"
    r"\s*(?:by default)?\s*[.!]*\s*$"
)
_LONGEST_VALUE = 120
_CODED = re.compile(r"[`\"'“A-Z_./@#\d]")
_FILLERS = "now currently set value default configured configuration setting option parameter equal today exactly new"
_UNITS = {
    name: names.split()[0]
    for names in (
        "% percent prozent",
        "ms millisecond milliseconds millis",
        "s sec secs second seconds sekunde sekunden",
        "min mins minute minutes minuten",
        "h hour hours stunde stunden",
        "d day days tag tage tagen jours",
        "w week weeks woche wochen",
        "month months monat monate",
        "year years jahr jahre ans",
        "b byte bytes",
        "kb kilobytes",
        "mb megabytes",
        "gb gigabytes",
        "eur euro euros",
        "usd dollar dollars",
        "kg",
        "g",
        "mm",
        "cm",
        "m",
        "km",
        "times x mal",
    )
    for name in names.split()
}


def claims_of(said: Iterable[str], words: Words) -> Iterator[Claim]:
    """What sentences state, clause by clause; questions, and what was or may be, state nothing."""
    for sentence in said:
        if not sentence.endswith(("?", "？", ":")) and not _UNSURE.search(sentence):
            for clause in _CLAUSE.split(uncited(sentence)):
                if claim := _claim(clause, sentence, words):
                    yield claim


def _claim(clause: str, sentence: str, words: Words) -> Claim | None:
    about, negations = _NOT.subn(" ", clause)
    negated = negations % 2 == 1
    kind, value, unit = Kind.PLAIN, "", ""
    numbers = list(_NUMBER.finditer(about))
    if len(numbers) > 1:
        return None  # which figure belongs to what cannot be told
    if numbers:
        number = numbers[0]
        kind, value, unit = Kind.NUMBER, _figure(number[1]), _unit(number[2])
        about = f"{about[: number.start()]} {about[number.end(2) if unit else number.end(1) :]}"
    elif (stated := _STATES.search(about)) and (found := _VALUE.match(stated["rest"][:_LONGEST_VALUE])):
        word = found["value"].lower()
        if word in _ON | _OFF:
            # To be not on is to be off.
            kind, value, negated = Kind.SWITCH, "on" if (word in _ON) != negated else "off", False
            about = about[: stated.start()]
        elif _CODED.search(found["written"]):  # a plain word may be anything
            kind, value = Kind.NAME, word
            about = about[: stated.start()]
    subject = _subject(about, words)
    if not subject or (kind is Kind.PLAIN and len(subject) < 2):
        return None
    return Claim(subject, kind, value, unit, negated, sentence)


def _subject(text: str, words: Words) -> frozenset[str]:
    """What it is about, without words such as `value` and `now` unless there are no others."""
    found = words.subject(text) if any(sign.isalnum() for sign in text) else frozenset()
    return found - _fillers(words) or found


@lru_cache(maxsize=4)
def _fillers(words: Words) -> frozenset[str]:
    return words.subject(_FILLERS)


def _figure(number: str) -> str:
    """`10,000`, `10000` and `10000.0` are one."""
    if re.fullmatch(r"-?\d{1,3}(?:,\d{3})+", number):
        number = number.replace(",", "")
    number = number.replace(",", ".")
    is_float = number.count(".") == 1
    return number.rstrip("0").rstrip(".") if is_float else number


def _unit(written: str | None) -> str:
    return _UNITS.get((written or "").lower(), "")


# -- of files

_LITERAL = (
    r"-?\d[\d_]*(?:[.,]\d+)*(?:[ \t]?(?:%|[A-Za-z]{1,12}))?"
    r"|\"[^\"\n]{1,80}\"|'[^'\n]{1,80}'|[A-Za-z][\w./@+-]{0,60}"
)
_SETS = re.compile(
    rf"""(?<![\w.$-])["']?(?P<key>[A-Za-z_][\w.-]{{0,80}})(?P<quote>["']?)
        (?: [ \t]*:[ \t]*[A-Za-z_][\w\[\].,\ |]{{0,40}}?[ \t]*=(?!=)    # timeout: int = 60
          | [ \t]*(?:=>|:=|=(?!=))
          | [ \t]*:(?=[ \t]) | (?<=["']):)
        [ \t]*(?P<value>{_LITERAL})[ \t]*(?=[,;)\]}}\#]|//|$)""",
    re.VERBOSE,
)
_SECTION = re.compile(r"\[+([^\[\]]{1,80})\]+\s*$")
_OPENS = re.compile(r"[:{(\[]\s*$")
_COMMENT = re.compile(r"\s*(?:#+|//+|\*+|--|\"{3}|;)\s*(?P<said>\S.*)")
_BARE_WORDS = (".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".env", ".properties")
"""Where a word without quotes is a value; in code it names something else."""
_LONGEST_LINE = 400
_PREFIX = 6
"""Letters of a stem, all but its last, by which a line may hold its word; other lines are not looked at."""


def claims_of_file(name: str, text: str, about: frozenset[str], words: Words) -> Iterator[Claim]:
    """What a file sets, key by key, and what its comments or sentences state, of the subjects with these stems."""
    if not about:
        return
    begins = "|".join(sorted({re.escape(stem[: min(_PREFIX, max(1, len(stem) - 1))]) for stem in about}))
    telling = re.compile(rf"(?:(?<![^\W_])|(?<=[a-z])(?=[A-Z]))(?i:{begins})")
    bare = name.lower().endswith(_BARE_WORDS)
    named = words.subject(name)
    section: tuple[str, ...] = ()
    parents: list[tuple[int, str]] = []

    @cache
    def around(*above: str) -> frozenset[str]:
        return named.union(*map(words.subject, above))

    for line in text.split("\n"):
        shown = line.strip()
        if not shown or len(line) > _LONGEST_LINE:
            continue
        if header := _SECTION.match(shown):
            section, parents = (header[1],), []
            continue
        indent = len(line) - len(line.lstrip())
        while parents and parents[-1][0] >= indent:
            parents.pop()
        if telling.search(line) or not line.isascii():  # stems have no accents
            place = around(*section, *(above for _, above in parents))
            yield from (replace(claim, around=claim.around | place) for claim in _claims_of_line(line, bare, words))
        if _OPENS.search(shown):
            parents.append((indent, shown))


def _claims_of_line(line: str, bare: bool, words: Words) -> list[Claim]:
    if comment := _COMMENT.match(line):
        return list(claims_of(sentences(comment["said"]), words))
    found = [claim for each in _SETS.finditer(line) if (claim := _set(each, line.strip(), bare, words))]
    return found or list(claims_of(sentences(line), words))


def _set(found: re.Match[str], line: str, bare: bool, words: Words) -> Claim | None:
    section, _, key = found["key"].rpartition(".")
    value = found["value"].strip()
    subject, around = _subject(key, words), _subject(section, words)
    if not subject:
        return None
    if number := _NUMBER.fullmatch(value.replace("_", "")):
        return Claim(subject, Kind.NUMBER, _figure(number[1]), _unit(number[2]), False, line, around)
    quoted = value[0] in "\"'"
    plain = value.strip("\"'").lower()
    if plain in _ON | _OFF and not quoted:
        return Claim(subject, Kind.SWITCH, "on" if plain in _ON else "off", "", False, line, around)
    return Claim(subject, Kind.NAME, plain, "", False, line, around) if quoted or bare else None
