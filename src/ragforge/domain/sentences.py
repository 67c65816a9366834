"""Where sentences begin."""

from __future__ import annotations

import re
from collections.abc import Iterator

# A run of terminators, closing quotes or emphasis, then space; in Chinese and Japanese no space is needed.
_END = re.compile(r"(?<![.!?…؟۔।॥])[.!?…؟۔।॥]++([\"'”’»)\]*_]*+)\s++|[。！？｡]++[\"'”’»)\]」』）】》]*+\s*+")
_PAUSE = ("…", "..")
_REACH = 12  # characters before a full stop that decide whether it ends a sentence
_BEFORE = r"(?:^|[\s(\"'“‘«\[*_/])"
_ABBREVIATION = re.compile(
    _BEFORE
    + r"""(?:
        [^\W\d_]                           # an initial: J. Smith
      | (?:[^\W\d_]\.)+[^\W\d_]            # e.g, i.e, U.S
      | (?i:ph\.d|dr|mr|mrs|ms|prof|sr|jr|st|vs|etc|al|cf|approx|resp|inc|ltd|corp|dept|bzw|usw|vgl|ggf|evtl)
    )$""",
    re.VERBOSE,
)
# These are words as well: abbreviations only before a number.
_BEFORE_NUMBER = re.compile(
    _BEFORE
    + r"(?i:nos?|nr|figs?|eqs?|sec|ch|chap|vol|eds?|pp|art|refs?|tab|para|abs|ca|est"
    + r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)$"
)
_NUMBERED = re.compile(r"(?:\A|\n)[ \t]*(?:[-*+>#]+[ \t]+)?\d{1,3}$")


def sentence_starts(text: str, start: int, end: int) -> Iterator[int]:
    """Offsets in `text[start:end]`, `end` included, at which a new sentence begins."""
    for match in _END.finditer(text, start, end):
        at, after = match.span()
        if (match[1] or text.startswith(_PAUSE, at)) and text[after : after + 1].islower():
            continue  # a pause, or what was quoted has ended and not the sentence around it
        if text[at] != "." or not _belongs_to_word(text, at, after):
            yield after


def _belongs_to_word(text: str, dot: int, after: int) -> bool:
    """Whether the full stop at `dot` is part of an abbreviation, an initial or a list number."""
    if text.startswith(_PAUSE, dot):
        return False
    before = text[max(0, dot - _REACH) : dot]
    if before[-1:].isdigit():
        return _NUMBERED.search(before) is not None
    if text[after : after + 1].isdigit() and _BEFORE_NUMBER.search(before):
        return True
    return _ABBREVIATION.search(before) is not None
