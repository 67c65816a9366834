"""Which language a text is probably in: by its script, then by its commonest small words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from itertools import chain

_SAMPLE = 800

_SCRIPTS = [
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
]

_SMALL_WORDS = {
    "en": "the of and to in is that for with this are be not you from can",
    "de": "der die und das ist nicht mit den ein eine für auf sie von zu werden",
    "fr": "le la les des et est une pour dans que qui sur pas avec vous du",
    "es": "el los las una que para con por del está como pero más este sus se",
    "it": "il gli una che per con del della sono non come anche questo nel più di",
    "pt": "os uma que para com não por mais como dos das ao seu você são do",
    "nl": "het een van en dat niet voor met zijn op te aan ook worden wordt de",
    "sv": "och att det som en på är för med den till inte av ett om jag",
    "pl": "nie się na jest że do to jak ale czy przez dla są oraz tym po",
    "fi": "ja on ei se että hän oli mutta ovat tai kun joka myös sen voi olla",
}
_LANGUAGES_OF = {
    word: tuple(code for code, words in _SMALL_WORDS.items() if word in words.split())
    for words in _SMALL_WORDS.values()
    for word in words.split()
}
_WORD = re.compile(r"[^\W\d_]+")
_ASCII_WORD = re.compile("[a-z]+")
_OTHER_SCRIPTS = re.compile("[\u0370-\ud7af]")

NAMES = {
    "ja": "Japanese", "ko": "Korean", "zh": "Chinese", "ru": "Russian", "el": "Greek", "he": "Hebrew", "ar": "Arabic",
    "hi": "Hindi", "th": "Thai", "en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian",
    "pt": "Portuguese", "nl": "Dutch", "sv": "Swedish", "pl": "Polish", "fi": "Finnish",
}  # fmt: skip


def detect(text: str) -> str | None:
    """ISO code of the text's language; None when there is too little to tell."""
    sample = text[:_SAMPLE]
    words = (_ASCII_WORD if sample.isascii() else _WORD).findall(sample.lower())
    letters = len("".join(words))
    if letters < 20:
        return None
    if not sample.isascii() and len(_OTHER_SCRIPTS.findall(sample)) > 0.1 * letters:
        for code, script in _SCRIPTS:
            share = len(script.findall(sample)) / letters
            if share > 0.25 or (code == "ja" and share > 0.1):
                return code
    known = filter(_LANGUAGES_OF.__contains__, words)
    votes = Counter(chain.from_iterable(map(_LANGUAGES_OF.__getitem__, known)))
    if not votes:
        return None
    (code, count), (_, second) = (*votes.most_common(2), ("", 0))[:2]
    return code if count >= 4 and count >= 1.3 * second else None


def foreign_to(known: Collection[str] | None, text: str) -> str | None:
    """The name of the text's language if a model with these languages does not know it."""
    if known is None:
        return None
    code = detect(text)
    return None if code is None or code in known else NAMES[code]
