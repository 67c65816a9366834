"""One tokenizer before every keyword engine: texts to the terms an index holds, questions to the terms it looks for.

A text is cut at white space, and each piece at the borders of its scripts and signs:

    Häuser              the stem of the word in the text's language, without accents
    ERR-4012            its parts and its whole: err, 4012, err4012; likewise snake_case, camelCase, paths, addresses
    v1.28.3  10,000     the number as one term, and what it may be asked by: 1.28.3, 1.28; 10.000, 10000
    USB接口             Latin and Chinese apart; scripts without spaces as pairs of characters
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import chain, islice
from threading import Lock
from typing import NamedTuple, TypeVar

import Stemmer

from ragforge.domain.language import NAMES, detect
from ragforge.domain.retrieval import QueryWords
from ragforge.retrieve.stop_words import STOP_WORDS

FINGERPRINT = f"words/1 snowball/{Stemmer.version()} unicode/{unicodedata.unidata_version}"
"""Changes whenever the same text could give other terms."""

_MARK = "\u0002"
LANGUAGE_MARKS = tuple(_MARK + code for code in NAMES)
"""Terms that no text can produce. Each chunk holds the one of its language, so that an index can tell what it holds."""

_LONGEST_TERM = 64
_PARTS_OF_COMPOUND = 64
_LONGEST_PIECE = 512
_MOST_PARTS = 512
"""Of a question: characters without white space, and parts, that are looked at."""
_MOST_GROUPS = 64
_MOST_LANGUAGES = 4
_REMEMBERED = 50_000


def index_terms(text: str) -> tuple[str, ...]:
    """The terms of a chunk, as often as they occur, and the mark of its language."""
    language = detect(text) or "en"
    return (_MARK + language, *chain.from_iterable(map(_indexed(language).__getitem__, text.split())))


def terms_of(pieces: Sequence[str]) -> list[tuple[str, ...]]:
    """The terms of the pieces of one text, without the mark: as `index_terms` would give them for the whole."""
    terms = _indexed(detect(" ".join(pieces)) or "en")
    return [tuple(chain.from_iterable(map(terms.__getitem__, piece.split()))) for piece in pieces]


def query_words(text: str, languages: Collection[str] = ()) -> QueryWords:
    """A question's words, each with the terms that stand for it in an index that holds these languages."""
    text = text[: _MOST_PARTS * _LONGEST_PIECE]
    pieces = dict.fromkeys(text.split())
    parts = list(islice(chain.from_iterable(_asked[piece[:_LONGEST_PIECE]] for piece in pieces), _MOST_PARTS))
    if text.isupper():
        parts = [part._replace(plain=_folded(part.word)) for part in parts]
    spoken, stemmers = _languages_of(parts, tuple(languages) or (detect(text) or "en",))
    small = _small_words(spoken)
    telling = [part for part in parts if part.plain not in small and not _HIRAGANA.fullmatch(part.word)]
    groups = tuple(islice(dict.fromkeys(map(_looked_for(stemmers).__getitem__, telling or parts)), _MOST_GROUPS))
    return QueryWords(groups, () if _FIGURES.isdisjoint(text) else tuple(_codes(text.lower(), groups)))


def _codes(text: str, groups: Sequence[Sequence[str]]) -> Iterator[str]:
    """Terms of letters and figures, except numbers with a unit such as 400mg or 50s; 4012-AB is none of those."""
    for term in dict.fromkeys(chain.from_iterable(groups)):
        has_both = sum(map(str.isdigit, term)) > 1 and any(map(str.isalpha, term))
        if has_both and not (_MEASURE.fullmatch(term) and term in text):
            yield term


def languages_in(holding: Mapping[str, int]) -> tuple[str, ...]:
    """The languages an index holds, most common first, by the number of its rows with each mark.

    One of fewer than a thousandth of the rows is taken for an error: its stems would be looked for in every question.
    """
    rows = {mark: holding.get(mark, 0) for mark in LANGUAGE_MARKS}
    held = [mark for mark in LANGUAGE_MARKS if rows[mark] and rows[mark] * 1_000 >= sum(rows.values())]
    return tuple(mark.removeprefix(_MARK) for mark in sorted(held, key=lambda mark: -rows[mark]))


# -- from pieces of text to parts


class _Part(NamedTuple):
    """A word, or a part of a compound with the wholes it belongs to. In lower case, with its accents."""

    word: str
    plain: str
    """As stop words are written: without accents. Empty where it cannot be one."""
    wholes: tuple[str, ...] = ()


_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31f0-\u31ff"
_HANGUL = "\u1100-\u115e\u1161-\u11ff\uac00-\ud7a3"
_THAI_LAO_TIBETAN = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf\u0f40-\u0fbc"
_BURMESE_KHMER = "\u1000-\u103f\u1050-\u109d\u1780-\u17b3\u17b6-\u17d3"
_SPACELESS = _THAI_LAO_TIBETAN + _BURMESE_KHMER
_INDIC = "\u0900-\u0963\u0966-\u0df3"
"""Their vowels are marks, which Python does not count as letters."""
_SIGNS = "§\u2600-\u27bf\u2b50\u2b55\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
_LETTER = rf"[^\W_{_HAN}{_KANA}{_HANGUL}{_SPACELESS}{_INDIC}]"

_TOKEN = re.compile(
    rf"""(?P<word>
            (?:(?<![^(\[{{"'`])\.(?=[^\W\d_]))?                      # .NET, .gitignore
            {_LETTER}+ (?: (?: ://|::|__|[-_./@:&\\'] | (?<=\d),(?=\d) ) {_LETTER}+ )*
            (?:(?:\+\+|\#)(?!\w))?                                   # C++, C#
         )
        |(?P<run>[{_HAN}{_KANA}]+|[{_HANGUL}]+|[{_SPACELESS}]+)
        |[{_INDIC}]+|[{_SIGNS}]""",
    re.VERBOSE,
)
_SEGMENT = re.compile(r"://|::|[/@:\\]")
_PIECE = re.compile(
    rf"""[vV]?\d+(?:[.,]\d+)+                # numbers and versions
        |[^\W\d_]+(?=\d+[.,]\d)              # a name before a version: python3.11
        |{_LETTER}+(?:'{_LETTER}+)*""",
    re.VERBOSE,
)
_SIMPLE = re.compile(
    r"""["'`(\[{*|<>=-]*  ([A-Za-z]?[a-z]{1,40}|[A-Z]{2,40}|[0-9]{1,20})  ["'`)\]}*|<>=.,;:!?-]*""", re.VERBOSE
)
"""One word or number between marks."""
_CAMEL = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*")
_ACRONYMS = re.compile(r"[A-Z]{2}s$")
_NAME_AND_NUMBER = re.compile(r"([^\W\d_]{2,})(\d{2,})|(\d+)([^\W\d_]{1,3})")
_NUMBER = re.compile(r"[vV]?\d+(?:[.,]\d+)+")
_MEASURE = re.compile(r"\d+[^\W\d_]{1,3}")
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_ELISION = re.compile(
    r"(?:[cdjlmnst]|(?:jus|lors|puis|quoi|quel|pres)?qu|un|quest|quell|(?:a|da|de|ne|su)?(?:ll|gl))'(?=..)"
)
_DATA = re.compile(r"[A-Za-z0-9+/=]{60,}")
_CAPITALS, _FIGURES = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), frozenset("0123456789")
_HIRAGANA = re.compile("[\u3041-\u309f]{2}")
_UNIGRAM = re.compile(f"[{_HAN}{_HANGUL}]")

_UNSEEN = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\ud800-\udfff\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff"
)
_ACCENTS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u05f3\u05f4\u0610-\u061a\u0640"
    "\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
)
_PLAIN = dict.fromkeys("\u2018\u2019\u201b\u02bc", "'") | dict.fromkeys("\u2010\u2012\u2013\u2212", "-")
_ODD = re.compile(f"[{_UNSEEN}{_ACCENTS}{''.join(_PLAIN)}]")
_ACCENT = re.compile(f"[{_ACCENTS}]")
_BASE_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i", "ŧ": "t", "ŋ": "n", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe"}
)


def _plain(text: str) -> str:
    """Compatibility forms and typographic signs as their plain ones, without what nobody sees or reads."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.replace("\u00b4", "'"))
    return _DATA.sub(_summed_up, _ODD.sub(lambda odd: _PLAIN.get(odd[0], ""), text))


def _summed_up(run: re.Match[str]) -> str:
    """A hash in place of a long run of signs that look like base64."""
    signs = set(run[0])
    encoded = len(signs) > 20 and len(signs & _CAPITALS) > 4 and len(signs & _FIGURES) > 1
    return f" {_digest(run[0])} " if encoded else run[0]


def _parts(token: re.Match[str]) -> Iterator[_Part]:
    """What a question that holds this token asks for."""
    if token.lastgroup == "word":
        yield from islice(_compound(token[0]), _PARTS_OF_COMPOUND)
    elif token.lastgroup == "run":
        yield from map(_part, _pairs(token[0]))
    else:
        yield _part(_lower(token[0]))


def _part(word: str, wholes: tuple[str, ...] = (), *, written: str = "") -> _Part:
    # Who writes IT or US means no pronoun; operators of other search engines are small words all the same.
    is_name = len(written) > 1 and written.isupper() and written not in ("AND", "OR", "NOT")
    return _Part(word, "" if is_name else _folded(word), wholes)


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(max(1, len(run) - 1))]


def _compound(token: str) -> Iterator[_Part]:
    """The parts of a word, an identifier, a code, a path or an address."""
    segments = [_PIECE.findall(segment) for segment in _SEGMENT.split(token)]
    pieces = list(chain.from_iterable(segments))
    if len(pieces) == 1 and token[-1] in "+#":
        yield _part(_lower(token.lstrip(".")))
        return
    wholes = [_joined(pieces)] if len(pieces) > 1 else []
    if token[0] == ".":
        wholes.append(_lower(token))
    for segment in segments:
        inner = [_joined(segment)] if 1 < len(segment) < len(pieces) else []
        for piece in segment:
            yield from _pieces(piece, (*wholes, *inner))


def _joined(pieces: Sequence[str]) -> str:
    """A compound as one word: without its joints, except between figures."""
    whole = ""
    for piece in map(_bare, pieces):
        whole += "." * (whole[-1:].isdigit() and piece[:1].isdigit()) + piece
    return whole


def _pieces(piece: str, wholes: tuple[str, ...]) -> Iterator[_Part]:
    """The parts of what stands between two joints."""
    if _NUMBER.fullmatch(piece):
        yield _number(piece, wholes)
        return
    parts = _camel(piece)
    if not parts and (split := _NAME_AND_NUMBER.fullmatch(piece)):
        parts = [part for part in split.groups() if part]
    if parts:
        wholes = (*wholes, _bare(piece))
    for part in parts or [piece]:
        yield _part(_bare(part), wholes, written=part)


def _camel(piece: str) -> list[str]:
    if piece.islower() or piece.isupper() or piece.istitle() or len(piece) > _LONGEST_TERM:
        return []
    parts = _CAMEL.findall(piece)
    # mRNA, iPhone and HbA1c are words; so is what looks like encoded data.
    is_name = len(piece) >= 3 * len(parts) and min(map(len, parts), default=0) > 1 and len("".join(parts)) == len(piece)
    return parts if is_name and len(parts) > 1 else []


def _number(piece: str, wholes: tuple[str, ...]) -> _Part:
    """A number with a point or comma; as a version also by its beginning, as thousands also without the signs."""
    value = piece.lstrip("vV").replace(",", ".")
    fields = value.split(".")
    others = [field for field in fields if len(field) == 4] if len(fields) > 2 else []
    if "," not in piece:
        others += [".".join(fields[:end]) for end in range(len(fields) - 1, 1, -1)][:3]
    if _THOUSANDS.fullmatch(piece):
        others.append("".join(fields))
    return _part(_lower(value), (*wholes, *others))


def _bare(word: str) -> str:
    """A word in lower case without an elided article, a possessive s, other apostrophes, or the plural of RNAs."""
    word = _lower(word.removesuffix("s") if _ACRONYMS.search(word) else word)
    if "'" in word:
        elided = _ELISION.match(word)
        word = word[elided.end() if elided else 0 :].removesuffix("'s").replace("'", "")
    return word


def _lower(text: str) -> str:
    if text.isascii():
        return text.lower()
    text = _ACCENT.sub("", unicodedata.normalize("NFKC", text.casefold()))
    return "".join(str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in text)


# -- from parts to terms

_STEMMERS = {
    "en": "english", "de": "german", "fr": "french", "es": "spanish", "it": "italian", "pt": "portuguese",
    "nl": "dutch", "sv": "swedish", "pl": "polish", "fi": "finnish",
}  # fmt: skip
"""Of the languages in Latin letters; words in other letters tell their stemmer themselves."""
_ACCENTED_ENDINGS = frozenset(("fr", "es", "it", "pt", "sv", "pl", "fi"))
"""Stemmers that know endings by their accents; for all others, accents are left out first."""
_STEMMERS_OF_SCRIPTS = (
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u052f", "russian"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)
_SCRIPTS_WITH_MARKS = ("hindi", "tamil")
_stemming = Lock()
"""A stemmer serves one thread at a time."""


@cache
def _stemmer(name: str) -> Callable[[str], str]:
    stem: Callable[[str], str] = Stemmer.Stemmer(name, 0).stemWord
    return stem


def _term(word: str, language: str) -> str:
    """What stands for a word in an index: its stem without accents, of bounded length."""
    folded = _folded(_stem(word, language))
    if len(folded) <= _LONGEST_TERM:
        return folded
    return folded[: _LONGEST_TERM // 2] + _digest(folded)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _stem(word: str, language: str) -> str:
    """By the language for Latin letters, by the script for others. Codes and very short words have no stem."""
    is_latin = word[0] < "\u0370" or "\u1e00" <= word[0] <= "\u1eff"
    if is_latin and language in _ACCENTED_ENDINGS:
        name = _STEMMERS[language]
    else:
        word = _folded(word)
        name = _STEMMERS.get(language, "english") if is_latin else _stemmer_of_script(word[0])
    if not name or len(word) < 3 or len(word) > _LONGEST_TERM or not (word.isalpha() or name in _SCRIPTS_WITH_MARKS):
        return word
    with _stemming:
        return _stemmer(name)(word) or word


def _stemmer_of_script(letter: str) -> str:
    return next((name for first, last, name in _STEMMERS_OF_SCRIPTS if first <= letter <= last), "")


def _folded(word: str) -> str:
    """Without accents, in the scripts whose letters bear them. Cyrillic has one that is often left out: ё."""
    first = word[:1]
    if word.isascii() or "\u0700" <= first < "\u1e00" or first >= "\u2000":
        return word
    if "\u0400" <= first <= "\u052f":
        return word.replace("ё", "е")
    return _ACCENT.sub("", unicodedata.normalize("NFD", word)).translate(_BASE_LETTERS)


def _terms_of_piece(language: str, piece: str) -> tuple[str, ...]:
    """Everything a chunk with this piece can be found by."""
    if simple := _SIMPLE.fullmatch(
        piece
    ):  # most are: then the way below leads to the same, but takes ten times as long
        return (_term(simple[1].lower(), language),)
    terms: list[str] = []
    words = _words(language)
    for token in _TOKEN.finditer(_plain(piece)):
        if token.lastgroup == "word":
            terms += words[token[0]]
            continue
        if token.lastgroup == "run" and len(token[0]) > 1:
            terms += _UNIGRAM.findall(token[0])
        terms += _terms_of_parts(language, _parts(token))
    return tuple(terms)


def _terms_of_word(language: str, word: str) -> tuple[str, ...]:
    return tuple(_terms_of_parts(language, islice(_compound(word), _PARTS_OF_COMPOUND)))


def _terms_of_parts(language: str, found: Iterable[_Part]) -> Iterator[str]:
    parts = list(found)
    for word in chain((part.word for part in parts), dict.fromkeys(chain.from_iterable(p.wholes for p in parts))):
        term = _term(word, language)
        yield term
        # Who asks without accents may get another stem: devolucao is not stemmed as devolução is.
        if not word.isascii() and (other := _term(_folded(word), language)) != term:
            yield other


def _parts_of_piece(piece: str) -> tuple[_Part, ...]:
    return tuple(chain.from_iterable(map(_parts, _TOKEN.finditer(_plain(piece)))))


def _group_of_part(stemmers: Sequence[str], part: _Part) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_term(word, code) for word in (part.word, *part.wholes) for code in stemmers))


def _languages_of(parts: Sequence[_Part], held: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The language whose small words say nothing, and those whose stems are looked for: all, unless one is sure."""
    latin = list(dict.fromkeys(code if code in _STEMMERS else "en" for code in held))
    speaking = [[code for code in latin if part.plain in STOP_WORDS[code]] for part in parts]
    hits = Counter(codes[0] for codes in speaking if len(codes) == 1)
    spoken = max(latin, key=hits.__getitem__)
    if not hits or any(2 * hits[code] > hits[spoken] for code in latin if code != spoken):
        return latin[0], tuple(latin[:_MOST_LANGUAGES])
    # A chunk too short to tell its language was taken for English. One word is not enough to drop it: Die Hard.
    stemmers = tuple(code for code in latin if code in (spoken, "en"))
    return spoken if hits[spoken] > 1 else latin[0], stemmers


@cache
def _small_words(language: str) -> frozenset[str]:
    """Stop words of a language, and of those that cannot be confused with it."""
    return STOP_WORDS[language].union(*(words for code, words in STOP_WORDS.items() if code not in _STEMMERS))


# -- each word is looked at once

_Key = TypeVar("_Key", bound=str | _Part)
_Value = TypeVar("_Value")


class _Memo(dict[_Key, _Value]):
    """What was computed for a key, until there is too much of it. Safe in threads: at worst it is computed twice."""

    def __init__(self, compute: Callable[[_Key], _Value]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: _Key) -> _Value:
        value = self._compute(key)
        if len(key) <= _LONGEST_TERM:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[key] = value
        return value


_asked = _Memo(_parts_of_piece)


@cache
def _words(language: str) -> _Memo[str, tuple[str, ...]]:
    return _Memo(partial(_terms_of_word, language))


@cache
def _indexed(language: str) -> _Memo[str, tuple[str, ...]]:
    return _Memo(partial(_terms_of_piece, language))


@lru_cache(maxsize=16)
def _looked_for(stemmers: tuple[str, ...]) -> _Memo[_Part, tuple[str, ...]]:
    return _Memo(partial(_group_of_part, stemmers))
