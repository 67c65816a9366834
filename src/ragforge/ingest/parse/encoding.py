"""Bytes to text, whatever their encoding. What is certain comes first; a guess is named as one.

    byte order mark -> strict UTF-8 -> escape sequences -> NUL pattern -> declared -> guessed

A guess decodes a sample of at most a few kilobytes with each candidate and scores the outcome by the letters
its languages use. Nothing but the standard library: this runs outside the jail.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from functools import cache

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ESCAPES = ((b"\x1b$)C", "iso2022_kr"), (b"\x1b$", "iso2022_jp_2"), (b"\x1b(", "iso2022_jp_2"))
_DECLARED = re.compile(
    rb"""\A\s*<\?xml[^>]{0,200}?\bencoding\s*=\s*["']([-\w.:]+)"""
    rb"""|<meta[^>]{0,200}?\bcharset\s*=\s*["']?([-\w.:]+)"""
    rb"""|\A(?:[^\n]*\n)?[ \t\f]*(?:\#|//|;|%)[^\n]{0,100}?coding[:=][ \t]*([-\w.]+)""",
    re.IGNORECASE,
)
_HEAD = 65_536
_SAMPLE = 3_000
# A line from shortly before its first byte above ASCII on, so that no character is cut in two there.
_FOREIGN = re.compile(rb"([\t\x20-\x7e]{0,20}[\x80-\xff][^\r\n]{0,1200})[^\r\n]*")


def decode(data: bytes) -> tuple[str, str | None]:
    """The text, and the name of its encoding if that had to be guessed. Never raises."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return data[len(bom) :].decode(encoding, "replace"), None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_legacy(data)
    if "\x1b" in text[:_HEAD]:
        escaped = _decode_escaped(data)
        if escaped is not None:
            return escaped, None
    if "\0" in text[:_HEAD]:
        wide = wide_encoding(data)
        if wide:
            return data.decode(wide, "replace"), wide
    return text, None


def wide_encoding(data: bytes) -> str | None:
    """UTF-16 or UTF-32, told by a byte order mark or where the NULs stand, and by what comes out."""
    sample = data[:4096]
    if b"\0" not in sample and not sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return None
    for encoding, width in (("utf-32-le", 4), ("utf-32-be", 4), ("utf-16-le", 2), ("utf-16-be", 2)):
        text = codecs.getincrementaldecoder(encoding)("ignore").decode(sample)
        marked = text.startswith("\ufeff")
        plain = sum(character < "\x7f" for character in text)
        odd = sum(not (character.isprintable() or character in "\t\n\r\f\ufeff") for character in text)
        complete = len(text) * width > len(sample) * 0.98 - 2 * width
        if text and complete and odd * 50 <= len(text) and (marked or plain * 50 >= len(text)):
            return encoding
    return None


def _decode_escaped(data: bytes) -> str | None:
    for escape, encoding in _ESCAPES:
        if escape in data[:_HEAD]:
            try:
                return data.decode(encoding)
            except UnicodeDecodeError:
                return None
    return None


def _decode_legacy(data: bytes) -> tuple[str, str | None]:
    """Text that is not valid UTF-8."""
    wide = wide_encoding(data)
    if wide:
        return data.decode(wide, "replace"), wide
    declared = _decode_declared(data)
    if declared is not None:
        return declared, None
    if _is_damaged_utf8(data[:_HEAD]):
        return data.decode("utf-8", "replace"), "utf-8"
    encoding = guess(data)
    return data.decode(encoding, "replace"), _NAMES.get(encoding, encoding)


def _decode_declared(data: bytes) -> str | None:
    """What an XML, HTML or source file says of itself, if it is true."""
    match = _DECLARED.search(data[:1024])
    if not match:
        return None
    name = next(group for group in match.groups() if group).decode("ascii", "replace")
    try:
        if codecs.lookup(name).name.startswith("utf"):
            return None
        return data.decode(name)
    except (LookupError, ValueError):
        return None


def _is_damaged_utf8(head: bytes) -> bool:
    """Mostly valid sequences with a few bad bytes between them, or one cut off at the end."""
    text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(head)
    bad = sum("\udc80" <= character <= "\udcff" for character in text)
    good = sum(character > "\x7f" for character in text) - bad
    return good >= 10 * max(bad, 1) or (good > 0 and bad == 0)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An encoding and the letters of one language that is written in it, the frequent ones first."""

    encoding: str
    letters: str
    latin: bool = False
    handicap: float = 0.1
    """What the rarer encoding must be better by; the more so the less there is to judge."""


_FINAL = "ςךםןףץ"
_CYRILLIC = "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё"
_HEBREW = "יוהלארתבמשנעםדקחפכטגצןסזךףץ"
_GREEK = "αοιετσνηυρπκμλςωάίδόγέήχθύώφβξζψϊϋΐΰ"
_ARABIC = "اليمنورتبةعدسفهكقحجشأطصخإذىضثزئءغظؤآ"
_THAI = "านรอกเงมยลวดทสตะปบคหแจพชขใไผโณซธฐศษภ่้ิีัุู็์ืึๆ"
_WESTERN = {
    "french": "éèàêçâîôùûïëœ",
    "german": "üäößé",
    "spanish": "óíáéñúü¿¡",
    "portuguese": "ãçáéíóêúâàõô",
    "italian": "èàùòìéî",
    "nordic": "åäöæøéü",
    "icelandic": "áíðþóúéöæý",
    "dutch": "ëéïüöèáó",
}
_CENTRAL = {
    "hungarian": "áéíóöőúüű",
    "czech": "íáěéřčšžýůúóťďň",
    "slovak": "áíéčšžýľúťňôďóäĺŕ",
    "polish": "łąężśóćńź",
    "croatian": "šćčžđ",
    "romanian": "ăşţîâ",
}
_CANDIDATES = (
    *(_Candidate("cp1252", letters, latin=True, handicap=0.0) for letters in _WESTERN.values()),
    *(_Candidate("cp1250", letters, latin=True, handicap=0.1) for letters in _CENTRAL.values()),
    *(_Candidate("iso8859_2", letters, latin=True, handicap=0.12) for letters in _CENTRAL.values()),
    _Candidate("cp1254", "ıüşöçğiâî", latin=True, handicap=0.1),
    _Candidate("cp1257", "ėšžųįąūčę", latin=True, handicap=0.15),
    _Candidate("cp1257", "āīšņēļūžģķč", latin=True, handicap=0.15),
    *(_Candidate("mac_roman", letters, latin=True, handicap=0.3) for letters in _WESTERN.values()),
    *(_Candidate("cp850", letters, latin=True, handicap=0.3) for letters in _WESTERN.values()),
    _Candidate("cp1251", _CYRILLIC),
    _Candidate("cp1251", "оаитенсрвулкмдпязібьйгчїхцєшюжщфґ", handicap=0.15),
    _Candidate("koi8_r", _CYRILLIC),
    _Candidate("iso8859_5", _CYRILLIC),
    _Candidate("cp866", _CYRILLIC, handicap=0.18),
    _Candidate("cp855", _CYRILLIC, handicap=0.2),
    _Candidate("mac_cyrillic", _CYRILLIC, handicap=0.15),
    _Candidate("cp1253", _GREEK),
    _Candidate("iso8859_7", _GREEK),
    _Candidate("cp1255", _HEBREW),
    _Candidate("cp1256", _ARABIC),
    _Candidate("iso8859_6", _ARABIC),
    _Candidate("cp874", _THAI),
)
_NAMES = {
    "cp932": "shift_jis",
    "cp949": "euc-kr",
    "euc_jp": "euc-jp",
    "big5hkscs": "big5",
    "koi8_r": "koi8-r",
    **{f"cp125{digit}": f"windows-125{digit}" for digit in range(9)},
    **{f"iso8859_{digit}": f"iso-8859-{digit}" for digit in range(1, 17)},
}

_COMMON_SIMPLIFIED = (
    "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可里后小"
    "么心多天而能好都然没日于起还发成事只作当想看文无开手用主行方又如前所本见经头面公同三已老从动两长"
)
_COMMON_TRADITIONAL = (
    "的一是不了在人有我他這中大來上國個到說們為子和你地出道也時年得就那要下以生會自著去之過家學對可里後小"
    "麼心多天而能好都然沒日於起還發成事只作當想看文無開手用主行方又如前所本見經頭面公同三已老從動兩長"
)
_COMMON_KANJI = (
    "日一国人年大十二本中長出三同時政事自行社見月分議後前民生連五発間対上部東者党地合市業内相方四定今回新"
    "場金員九入選立開手米力学問高代明実円関決子動京全目表戦経通外最言氏現理調体化田当八六約主題下首意法名"
    "所住"
)
_COMMON_HANGUL = (
    "이다는의에가을를하고지로사은한기도서어인자시있그아나리대정해수것일들보제스부전주상만라구장원안여으니"
    "과우유조오면성공트없때문국회비요경미게했할신동선"
)
_PUNCTUATION = frozenset("“”‘’„‚–—…«»€£©®°§·•№\xa0´`×±½¼¾²³™†¶")
_WIDE_PUNCTUATION = frozenset("、。，．・：；？！ー「」『』（）【】《》〈〉〔〕　～…—“”‘’·①②③")


def guess(data: bytes) -> str:
    """The codec that makes the most likely text of these bytes."""
    sample = _sample(data[:_HEAD])
    scores = {encoding: _wide_score(sample, encoding) for encoding in _WIDE}
    for candidate in _CANDIDATES:
        score = _score(_decoded(sample, candidate.encoding), candidate)
        scores[candidate.encoding] = max(score, scores.get(candidate.encoding, score))
    return max(scores, key=lambda encoding: scores[encoding])


def _sample(head: bytes) -> bytes:
    """Lines that hold bytes above ASCII, a few kilobytes of them from all over the head."""
    lines = _FOREIGN.findall(head)
    step = max(1, sum(map(len, lines)) // _SAMPLE)
    return b"\n".join(lines[::step])[: _SAMPLE * 2]


def _decoded(sample: bytes, encoding: str) -> str:
    return sample.decode(encoding, "replace")


@cache
def _weights(letters: str, latin: bool) -> dict[str, float]:
    """Each letter's weight: 2 for the most frequent and less for each next one; capitals a little less."""
    slope = 1 if latin else 2
    weights = {letter: 2 - slope * place / len(letters) for place, letter in enumerate(letters)}
    capitals = {letter.upper(): weight - 0.7 for letter, weight in weights.items() if len(letter.upper()) == 1}
    return capitals | weights


def _score(text: str, candidate: _Candidate) -> float:
    """How well the characters above ASCII fit the language, on average."""
    weights = _weights(candidate.letters, candidate.latin)
    total, count, run = 0.0, 0, 0
    previous = " "
    for character in text:
        if character <= "\x7f":
            if run and not candidate.latin and character.isalpha():
                total -= 1.5
            run = 0
        else:
            count += 1
            weight = weights.get(character)
            if weight is None:
                total += 0.5 if character in _PUNCTUATION and previous != character else -3
                run = 0
            else:
                run += 1
                total += weight + _context(candidate.latin, previous, character, run)
        previous = character
    return total / max(count, 1) - candidate.handicap * (1 + 10 / max(count, 1))


def _context(latin: bool, previous: str, character: str, run: int) -> float:
    """What the letter before says: a capital or anything after what ends a word, mixed scripts, runs of accents."""
    malus = -2.0 if (character.isupper() and previous.islower()) or previous in _FINAL else 0.0
    if latin:
        return malus - (2.0 if run > 2 else 0.3 if run == 2 else 0.0)
    return malus - (1.5 if previous.isascii() and previous.isalpha() else 0.0)


_WIDE = ("cp932", "euc_jp", "gb18030", "big5hkscs", "cp949", "johab")


_RARE = {"johab": 0.5}


def _wide_score(sample: bytes, encoding: str) -> float:
    """How well the sample reads as Japanese, Chinese or Korean; validity itself says much."""
    text = _decoded(sample, encoding)
    values = [_wide_value(character, encoding) for character in text if character > "\x7f"]
    count = max(len(values), 1)
    return sum(values) / count - _RARE.get(encoding, 0.1) * (1 + 20 / count)


def _wide_value(character: str, encoding: str) -> float:
    if character in _WIDE_PUNCTUATION:
        return 1.2
    if character == "\ufffd":
        return -6.0
    if encoding in ("cp932", "euc_jp"):
        return _japanese_value(character)
    if encoding in ("cp949", "johab"):
        if "가" <= character <= "힣":
            return 2.2 if character in _COMMON_HANGUL else 1.4 if _in_charset(character, "euc_kr") else -1.0
        return 0.0 if _in_charset(character, "euc_kr") else -2.0
    common, charset = (_COMMON_SIMPLIFIED, "gb2312") if encoding == "gb18030" else (_COMMON_TRADITIONAL, "big5")
    if character in common:
        return 2.4
    level = _first_level(character, charset)
    return 1.2 if level == 1 else -1.0 if level == 2 else -2.0


def _japanese_value(character: str) -> float:
    if "ぁ" <= character <= "ゖ":
        return 2.4
    if "ァ" <= character <= "ヺ":
        return 1.8
    if character in _COMMON_KANJI:
        return 2.0
    level = _first_level(character, "euc_jp")
    return 1.2 if level == 1 else -1.0 if level == 2 else -2.0


@cache
def _in_charset(character: str, charset: str) -> bool:
    try:
        character.encode(charset)
    except UnicodeEncodeError:
        return False
    return True


_FIRST_LEVEL = {"gb2312": (0xB0, 0xD7), "big5": (0xA4, 0xC6), "euc_jp": (0xB0, 0xCF)}


@cache
def _first_level(character: str, charset: str) -> int:
    """1 for the frequent ideographs of a character set, 2 for its other ones, 0 for none of it."""
    try:
        encoded = character.encode(charset)
    except UnicodeEncodeError:
        return 0
    low, high = _FIRST_LEVEL[charset]
    if not ("\u4e00" <= character <= "\u9fff") or len(encoded) != 2:
        return 0
    return 1 if low <= encoded[0] <= high else 2
