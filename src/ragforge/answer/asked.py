"""What a question asks for: the kind of thing, several of them, or the same about each of two."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from ragforge.answer.weigh import is_name


class Asked(StrEnum):
    """The kind of thing that answers."""

    NAME = "name"
    TIME = "time"
    AMOUNT = "amount"
    MONEY = "money"
    PLACE = "place"
    REASON = "reason"
    OTHER = "other"


_KINDS: tuple[tuple[Asked, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (
            Asked.MONEY,
            r"\bwhat (?:do|does|did|will|would) .{1,80}\bcost\b|\bhow much\b.{1,80}\b(?:costs?|paid|pay|charged?)\b"
            r"|\bwhat(?: is| are| was| were)?(?: the)? (?:price|cost|fee)s?\b|\bhow expensive\b|\bwie teuer\b"
            r"|\bwas kosten?t?\b|\bcombien co[uû]te|\bcu[aá]nto cuesta|\bquanto cost|\bwat kost|\bvad kostar\b",
        ),
        (
            Asked.AMOUNT,
            r"\bhow (?:many|much|long|far|old|often|big|large|tall|high|deep|wide|fast|heavy|hot|cold|late|soon)\b"
            r"|\b(?:what|which)(?: \w+)? (?:percent\w*|number|amount|share|fraction|proportion|rate|price|cost|size"
            r"|weight|length|height|age|temperature|speed|distance|degree|population|budget|limit)\b"
            r"|\bat what\b|\bwie ?(?:viele?|lange?|oft|hoch|weit|teuer|schwer|gro(?:ß|ss))\b|\bcombien\b"
            r"|\bcu[aá]nt[oa]s?\b|\bquant[oiae]\b|\bhoeveel\b|\bhur många\b|多少|几|いくつ|いくら",
        ),
        (
            Asked.TIME,
            r"\bwhen\b|\b(?:what|which)(?: \w+)? (?:years?|centur\w+|dates?|days?|months?|decades?|times?|era|period)\b"
            r"|\b(?:until|since) when\b|\bwann\b|\bquand\b|\bcu[aá]ndo\b|\bquando\b|\bwanneer\b|\bnär\b"
            r"|何时|什么时候|いつ",
        ),
        (
            Asked.NAME,
            r"\bwho(?:m|se)?\b|\b(?:what|which)(?: \w+)? (?:person|people|man|woman|king|queen|emperor|president|leader"
            r"|author|company|organi[sz]ation|group|party|team)\b|\bwer\b|\bwem\b|\bwen\b|\bqui\b|\bqui[eé]n(?:es)?\b"
            r"|\bchi\b|\bquem\b|\bwie is\b|\bvem\b|谁|誰|だれ",
        ),
        (
            Asked.PLACE,
            r"\bwhere\b|\b(?:what|which)(?: \w+)? (?:countr\w+|cit(?:y|ies)|states?|places?|regions?|continents?|towns?"
            r"|rivers?|areas?|islands?|locations?|streets?)\b|\bwo(?:her|hin)?\b|\boù\b|\bd[oó]nde\b|\bdove\b"
            r"|\bonde\b|\bwaar\b|\bvar\b|哪里|哪儿|どこ",
        ),
        (
            Asked.REASON,
            r"\bwhy\b|\bwhat (?:caused|causes|led to|made)\b|\breasons?\b|\bwarum\b|\bwieso\b|\bpourquoi\b"
            r"|\bpor qu[eé]\b|\bperch[eé]\b|\bwaarom\b|\bvarför\b|为什么|なぜ",
        ),
    )
)
_TIMES = re.compile(
    r"\b(?:1\d{3}|20\d{2})s?\b|\b\d{1,4} ?(?:BCE?|AD|CE)\b|\b\d{1,2}(?:st|nd|rd|th)\b|\bcentur(?:y|ies)\b"
    r"|\b\d{1,2}:\d{2}\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b|[年月]"
    r"|\b(?:January|February|March|April|May|June|July|August|September|October|November|December|Januar|Februar"
    r"|März|Mai|Juni|Juli|Oktober|Dezember|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)s?\b"
)
_AMOUNTS = re.compile(
    r"\d|[%€$£]|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen"
    r"|eighteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundreds?|thousands?|millions?|billions?|dozens?"
    r"|half|quarter|third|twice|double|single|several|few|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf)\b"
    r"|[一二三四五六七八九十百千万]",
    re.IGNORECASE,
)
_MONEY = re.compile(
    r"[€$£¥]|(?<![^\W_])(?:EUR|USD|GBP|CHF|SEK|NOK|DKK|euros?|dollars?|pounds?|cents?|francs?|kronor|price|free"
    r"|kostenlos)(?![^\W_])",
    re.IGNORECASE,
)
_NAMES = re.compile(r"(?<![.!?:\n] )(?<!^)\b[^\W\d_a-z]\w*[\w'-]*")
_PLACES = re.compile(
    r"\b(?:in|at|from|near|to|of|into|across|through|towards?|im?|nach|aus|à|en|de)(?: the)? [^\W\d_a-z]\w+"
)
_REASONS = re.compile(
    r"\b(?:because|due to|since|in order to|so that|as a result|therefore|caused?|reasons?|thus|owing|led to|thanks to"
    r"|weil|denn|wegen|damit|parce que|afin|porque|perché)\b",
    re.IGNORECASE,
)
_HOLDING = {
    Asked.TIME: _TIMES,
    Asked.AMOUNT: _AMOUNTS,
    Asked.MONEY: _MONEY,
    Asked.NAME: _NAMES,
    Asked.PLACE: _PLACES,
    Asked.REASON: _REASONS,
}
_WORD = re.compile(r"\w+")
_SEVERAL = re.compile(
    r"(?i:\b(?:what|which) (?:are|were)\b|\bwhich (?:\w+ )?\w{2,}(?<![sui])s\b"
    r"|\bwhat (?:\w+ )?\w{2,}(?<![sui])s (?:are|were|do|did|must|can|should|may|have|will)\b"
    r"|^\W*(?:please )?(?:list|name|enumerate)\b|\bwas sind\b|^\W*(?:nenne?|liste|zähle?)\b|\bquel(?:le)?s\b"
    r"|\bcu[aá]les\b|\bquali\b|\bquais\b|\bwat zijn\b|\bvilka\b)|\b[Ww]elche (?:\w+ )?[A-ZÄÖÜ]\w*(?:e|n|r|s)\b|哪些"
)
_JOINED = re.compile(
    r"\s*(?:,|,?\s*(?:\b(?:and|or|und|oder|vs|versus|et|ou|y|e|och|en)\b\.?|&))\s*"
    r"(?:(?:in|of|for|im|von|für|de)\s+)?(?:(?:the|a|an|der|die|das|dem|den|le|la|el|il|het)\s+)?(?:[^\W\d_A-Z]+\s+)?[\"'`“„«]?"
)
_AND = re.compile(r"\w|&")
_WRITTEN = re.compile(r"[^\s,;?!()\"'`“”„«»]+")
_FILE = re.compile(r"\.[a-z]\w{0,4}$")


def asked_for(question: str) -> Asked:
    """What kind of thing the question asks for: the first one it names."""
    found = ((match.start(), kind) for kind, pattern in _KINDS if (match := pattern.search(question)))
    return min(found, key=lambda each: each[0], default=(0, Asked.OTHER))[1]


def wants_several(question: str) -> bool:
    """Whether it asks for all there are: what are the, which …s, list."""
    return _SEVERAL.search(question) is not None


def compared(question: str) -> list[str]:
    """Names, codes and files that the question joins by an “and”, for it asks the same about each; else none."""
    words = [(match.start(), match[0].rstrip(".:")) for match in _WRITTEN.finditer(question)]
    named = [(start, word) for start, word in words if start and (_FILE.search(word) or is_name(word, begins=False))]
    found: list[str] = []
    end = 0
    joined = False
    for start, word in named:
        gap = question[end:start].lstrip("\"'`”»")
        if found and _JOINED.fullmatch(gap):
            joined |= _AND.search(gap) is not None
        elif joined:
            break
        else:
            found = []
        found.append(word)
        end = start + len(word)
    return list(dict.fromkeys(found)) if joined else []


def fits(kind: Asked, text: str, question: str) -> float:
    """Whether the text holds what is asked for, and the question does not hold it already."""
    pattern = _HOLDING.get(kind)
    if pattern is None:
        return 0.0
    given = _words(question)
    for match in pattern.finditer(text):
        if not given.issuperset(_WORD.findall(match[0].casefold())) or not match[0][0].isalnum():
            return 1.0
    return 0.0


@lru_cache(maxsize=4)
def _words(question: str) -> frozenset[str]:
    return frozenset(_WORD.findall(question.casefold()))
