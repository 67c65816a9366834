"""What may not leave with an answer: addresses that no source holds, images, HTML, and characters nobody sees.

`Plain` comes first and makes the text honest: entities and invisible characters can then hide nothing. `find_link`
tells where an address begins, also behind look-alike letters and backslashes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from html import unescape

LINK_REMOVED = "[link removed]"
LINK_IN_SOURCE = "[link in source {}]"
IMAGE_REMOVED = "[image removed]"
OURS = re.compile(r"\[(?:link|image) removed\]|\[link in source \d{1,9}\]")
"""What stands in place of something that was taken out: nobody claims it."""
LONGEST_LINK = 600
"""Longer addresses are never allowed, so that no more needs to be held back."""
_LONGEST_ENTITY = 40
_LONGEST_NOTE = 80

_ASKS_FOR_ADDRESS = re.compile(
    r"https?:|www\.|\b(?:links?|urls?|hyperlinks?|web ?(?:sites?|pages?|address(?:es)?)|sites?|home ?pages?|portals?|"
    r"downloads?|endpoints?|webseiten?|internetadressen?|liens?|enlaces?|p[aá]ginas? web)\b",
    re.IGNORECASE,
)


def asks_for_address(question: str) -> bool:
    """Whether the answer may well be an address of the web."""
    return _ASKS_FOR_ADDRESS.search(question) is not None


# -- characters

_INVISIBLE = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_JOINERS = "\u200c\u200d\ufe00-\ufe0f"
"""Emoji, Persian and Indic scripts need them; between plain letters they only hide something."""
_ENTITY = rf"&(?:\#[xX][0-9a-fA-F]{{1,20}}|\#[0-9]{{1,20}}|[A-Za-z][A-Za-z0-9]{{1,{_LONGEST_ENTITY - 2}}}(?=;));?"
_ODD = re.compile(rf"\r\n?|(?<![^\x00-\x7f])[{_JOINERS}]+|{_ENTITY}")
_UNDECIDED = re.compile(rf"(?:\r|&\#?[0-9A-Za-z]{{0,{_LONGEST_ENTITY}}})\Z")
_UNSEEN = re.compile(f"[{_INVISIBLE}]+")
_JOINED = re.compile(f"[{_JOINERS}]+")
_SHOWN_AS = {"<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;"}
_HARMLESS = frozenset("<>&\"'")


class Plain:
    """The text without what only machines see: line ends as one, no invisible characters, no letters as entities."""

    def __init__(self) -> None:
        self._held = ""
        self._before = ""
        """A letter beyond ASCII, if the last one is beyond it: what may be joined to it is kept."""

    def feed(self, piece: str, *, final: bool = False) -> str:
        """What is certain so far."""
        text = self._held + _UNSEEN.sub("", piece)
        self._held = ""
        if not final and (end := _UNDECIDED.search(text, max(0, len(text) - _LONGEST_ENTITY - 2))):
            text, self._held = text[: end.start()], end[0]
        honest = _ODD.sub(_honest, self._before + text)[len(self._before) :]
        if last := _JOINED.sub("", text[-1:]) or _JOINED.sub("", text)[-1:]:
            self._before = "" if last.isascii() else "é"
        return honest


def _honest(odd: re.Match[str]) -> str:
    found = odd[0]
    if found[0] == "\r":
        return "\n"
    if found[0] != "&":
        return ""
    meant = unescape(found)
    if meant == found or (not is_telling(meant) and found[1] != "#"):
        return found
    shown = "".join(_SHOWN_AS.get(sign, sign) for sign in meant)
    return _JOINED.sub("", _UNSEEN.sub("", shown.replace("\r", "\n")))


def is_telling(meant: str) -> bool:
    """Whether the character that an entity stands for could be part of an address or of markup."""
    plain = meant.translate(look_alikes())
    return any((sign.isascii() and sign not in _HARMLESS) or not sign.isprintable() for sign in plain)


@cache
def look_alikes() -> dict[int, str]:
    """Letters and signs that stand for, or look like, those of an address; each as one plain character."""
    ranges = ((0x00A1, 0x02FF), (0x2010, 0x2BFF), (0x3000, 0x33FF), (0xFE10, 0xFE6F), (0xFF01, 0xFF65))
    table: dict[int, str] = {}
    for first, last in (*ranges, (0x1D400, 0x1D7FF), (0x1F100, 0x1F1FF)):
        for code in range(first, last + 1):
            plain = unicodedata.normalize("NFKC", chr(code))
            if len(plain) == 1 and plain.isascii() and not plain.isspace():
                table[code] = plain
    like = ("аaсcеeоoрpѕsіiјjхxуyһhтtмmԁdԛqԝwкkвbнhѵvαaοoρpνvτtιiκkɡgıi", "∶:꞉:ː:׃:։:⁄/∕/⧸/╱/⟋/․.。.｡.·.ꓸ.")
    for pairs in like:
        table |= {ord(odd): plain for odd, plain in zip(pairs[::2], pairs[1::2], strict=True)}
    return table


# -- addresses

_HOST = r"(?:[\w-]{1,63}\\?\.){1,8}"
_ANYWHERE = r"""[a-z][a-z0-9+.-]{0,31}\\?:(?:\\?/){2}
  | (?:javascript|vbscript|livescript)\\?:(?=\S)
  | (?<![a-z0-9])(?:mailto|xmpp|magnet|blob|view-source|ms-[a-z-]{1,30})\\?:(?=\S)
  | (?<![a-z0-9])(?:https?|ftps?|wss?|file)\\?:[\\/](?=\S)
  | (?<![a-z0-9])https?\\?:(?=[\w.-]+\.\w)
  | (?<![a-z0-9])(?:tel|sms)\\?:(?=[+\d])
  | data\\?:(?=(?:text|image|application|audio|video|font|multipart|message|model)/)
  | (?<![a-z0-9])data\\?:(?=[a-z]{2,20}/|[;,]\S)
  | (?<![a-z0-9])www[0-9]{0,3}\\?\.(?=[^\s.])"""
_ENDINGS = (
    r"com|net|org|edu|gov|mil|biz|info|xyz|top|site|online|click|link|shop|dev|app|cloud|tech|store|live|space|page"
    r"|website|fun|work|zip|mov|aero|asia|coop|museum|local|test|example|invalid|рф"
)
_IN_TEXT = re.compile(
    rf"""{_ANYWHERE}
  | (?<![/\\])[/\\]{{2,}}+(?=\w)
  | @{_HOST}[a-z]{{2,24}}(?!\w)
  | (?<![\w\\@-]){_HOST}(?:
        (?:com|net|org|edu|gov|mil|biz|xyz|рф)(?![^\W_]|-)
      | (?:{_ENDINGS})(?=/\S|:\d|[?]\S)
      | [a-z]{{2}}(?=/\S) )
  | (?<![\w.])(?:\d{{1,3}}\.){{3}}\d{{1,3}}(?=:\d|/\S)""",
    re.VERBOSE | re.IGNORECASE,
)
_IN_CODE = re.compile(rf"{_ANYWHERE} | (?<![\w:)/])//{_HOST}[a-z]{{2,24}}(?![\w(])", re.VERBOSE | re.IGNORECASE)
_MAY_BE_LINK = re.compile(r"[:./\\@]")
_CLOSING = ".,;:!?'\"”’»)]}*_~>…`"
_STRETCH = re.compile(r"[^\s<>\[\]`\"{}|【】]*")
_DROPPED = re.compile(r"[^\s<>\[\]`\"'(){}|【】，。、；！？（）「」]*")


def find_link(text: str, *, code: bool = False) -> int:
    """Where an address begins in a stretch of text without white space, or -1."""
    plain = text if text.isascii() else text.translate(look_alikes())
    if not _MAY_BE_LINK.search(plain):
        return -1
    pattern = _IN_CODE if code else _IN_TEXT
    at, end = -1, len(plain)
    while found := pattern.search(plain, 0, end):
        at = end = found.start()  # what stands before it may become one without it
    return at


def stretch_of(text: str, start: int) -> int:
    """Where an address that begins at `start` ends at the latest."""
    found = _STRETCH.match(text, start, start + LONGEST_LINK)
    return found.end() if found else start


def dropped_to(text: str, start: int) -> int:
    """Up to where a foreign address is taken out."""
    found = _DROPPED.match(text, start)
    return found.end() if found else start


def trimmed(address: str) -> str:
    """An address without the full stop, quotes or brackets that only follow it."""
    while address and address[-1] in _CLOSING:
        if address[-1] == ")" and address.count("(") >= address.count(")"):
            break
        address = address[:-1]
    return address


def closes(text: str) -> bool:
    """Whether nothing but punctuation that ends a phrase is there."""
    return all(sign in _CLOSING for sign in text)


def links_in(texts: Iterable[str]) -> frozenset[str]:
    """Every address that stands in the texts: what an answer may repeat."""
    found: set[str] = set()
    for text in texts:
        for word in re.finditer(r"[^\s<>\[\]`\"{}|【】]+", text):
            whole = word[0]
            at = find_link(whole) if _MAY_BE_LINK.search(whole) else -1
            while at >= 0:
                address = trimmed(whole[at:])
                if 0 < len(address) < LONGEST_LINK:
                    found.add(address)
                step = at + max(1, len(address))
                further = find_link(whole[step:])
                at = step + further if further >= 0 else -1
    return frozenset(found)


def noted(address: str) -> str:
    """An address that can be read but does nothing where it is shown: `https evil[.]example/x`."""
    plain = re.sub(r"//+|[^\w./?=%&#@-]+", " ", address).strip().replace(".", "[.]").replace("@", " at ")
    return plain if len(plain) <= _LONGEST_NOTE else plain[:_LONGEST_NOTE] + "…"
