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

# Before a word in lower case: Acme Co. pays, Heinrich VIII. regierte, vom 1. bis, bl.a. detta; but iOS is a name.
_SHORT = re.compile(
    _BEFORE
    + r"(?:[A-ZÀ-Þ]\w{0,4}|\d{1,2}|(?i:[b-df-hj-np-tv-xz]{2,5}|in[ck]l|ex[ck]l|bijv)|[^\W\d_]+(?:\.[^\W\d_]+)+)$"
)
_NAME = re.compile(r"\w*[A-Z\d]")
_MONTHS = r"(?:J[aä]n|Feb|März|Mrz|Apr|Mai\b|Jun|Jul|Aug|Sep|Okt|Nov|Dez)"
_DAY = r"(?:^|[^\w.,])\d{1,2}"
_AFTER_NUMBER, _AFTER_WORD = (
    tuple((re.compile(f"(?:{before})$"), re.compile(following)) for before, following in pairs)
    for pairs in (
        (
            (_DAY, rf"{_MONTHS}|\d{{1,2}}\. ?(?:19|20)\d\d"),  # 31. August, 24. 12. 2026
            (_DAY + r"\. ?\d{1,2}", r"(?:19|20)\d\d"),
            # Im 2. Stock; but: I am 31.
            (r"(?:^|[\s(])(?i:(?<!I )am|ab|im|vom|zum|zur|beim|bis|de[mnrs]|die|das|(?:ein|jed)e[mnrs]?) \d{1,3}", ""),
        ),
        (
            (rf"{_BEFORE}(?i:gem|tel|fax|kap|ziff|rn)|[^\W\d_](?i:str)", r"[\d§+(]|(?:Art|Abs|Nr|Kap|Ziff)\."),
            # Titles before a name, and what stands before nouns, which in German have a capital.
            (
                rf"{_BEFORE}(?:Hd|Hrn?|Frl?|Dipl|Ing|Sra|Dra|Sig|Dott|Mme|Mlle|Rev|Gen|Col|Capt|Lt|Mt"
                r"|(?i:mio|mrd|tsd|inkl|exkl|zzgl|abzgl|bspw|sog|ehem|einschl|gegr))",
                r"[^\W\d_]",
            ),
        ),
    )
)


def sentence_starts(text: str, start: int, end: int) -> Iterator[int]:
    """Offsets in `text[start:end]`, `end` included, at which a new sentence begins."""
    for at, after in _stops(text, start, end):
        if text[at] != "." or not _goes_on(text, at, after):
            yield after


def cut_places(text: str, start: int, end: int) -> Iterator[int]:
    """Where a chunk may end: by few rules that stay, for other rules would cut every stored text anew."""
    return (after for _, after in _stops(text, start, end))


def _stops(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """What looks like the end of a sentence: where its terminator stands, and where the next one would begin."""
    for match in _END.finditer(text, start, end):
        at, after = match.span()
        if (match[1] or text.startswith(_PAUSE, at)) and text[after : after + 1].islower():
            continue  # a pause, or what was quoted has ended and not the sentence around it
        if text[at] != "." or not _belongs_to_word(text, at, after):
            yield at, after


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


def _goes_on(text: str, dot: int, after: int) -> bool:
    """Whether the sentence goes on after the full stop, as the words around that tell."""
    if text.startswith(_PAUSE, dot):
        return False
    before, following = text[max(0, dot - _REACH) : dot], text[after : after + _REACH]
    if following[:1].islower():
        return _SHORT.search(before) is not None and not _NAME.match(following)
    rules = _AFTER_NUMBER if before[-1:].isdigit() else _AFTER_WORD
    return any(then.match(following) and mark.search(before) for mark, then in rules)
