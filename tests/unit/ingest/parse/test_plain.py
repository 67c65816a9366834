"""Plain text in any encoding."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.documents import ParseFailure, Reason, TextKind
from ragforge.ingest.parse import registry
from ragforge.ingest.parse.plain import decode, parse
from tests.proof import count

RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю. Москва — столица России.\n"
BULGARIAN = "Всички хора се раждат свободни и равни по достойнство и права. Те са надарени с разум и съвест.\n"
JAPANESE = "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。\n"
CHINESE = "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。\n"
TRADITIONAL = "人人生而自由，在尊嚴和權利上一律平等。他們賦有理性和良心，並應以兄弟關係的精神相對待。\n"
KOREAN = "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 이성과 양심을 가지고 있다.\n"
GREEK = "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.\n"
HEBREW = "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון.\n"
ARABIC = "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق وقد وهبوا عقلا وضميرا\n"
THAI = "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ\n"
FRENCH = "Tous les êtres humains naissent libres et égaux en dignité et en droits ; où est le café ?\n"
GERMAN = "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Die Straße ist schön; für übermorgen.\n"
SPANISH = "Todos los seres humanos nacen libres e iguales en dignidad y derechos. ¿Dónde está el niño? ¡Aquí, señor!\n"
POLISH = "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni obdarzeni rozumem.\n"
CZECH = "Všichni lidé se rodí svobodní a sobě rovní co do důstojnosti a práv. Jsou nadáni rozumem a svědomím.\n"
HUNGARIAN = (
    "Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Az emberek, ésszel és erővel bírván.\n"
)
TURKISH = "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana sahiptirler, çağdaş.\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        *((RUSSIAN, encoding) for encoding in ("cp1251", "koi8-r", "iso8859-5", "cp866", "mac_cyrillic")),
        (BULGARIAN, "cp1251"),
        *((JAPANESE, encoding) for encoding in ("shift_jis", "euc-jp", "iso2022_jp")),
        (CHINESE, "gb18030"),
        (TRADITIONAL, "big5"),
        (KOREAN, "euc-kr"),
        *((GREEK, encoding) for encoding in ("cp1253", "iso8859-7")),
        (HEBREW, "cp1255"),
        *((ARABIC, encoding) for encoding in ("cp1256", "iso8859-6")),
        (THAI, "tis-620"),
        *((text, "cp1252") for text in (FRENCH, GERMAN, SPANISH)),
        (GERMAN, "mac_roman"),
        *((text, encoding) for text in (POLISH, CZECH, HUNGARIAN) for encoding in ("cp1250", "iso8859-2")),
        (TURKISH, "cp1254"),
    ],
)
def test_legacy_encodings_are_told_from_the_letters(text: str, encoding: str) -> None:
    if encoding == "mac_cyrillic":
        text = text.replace("ё", "е")
    decoded, _ = decode((text * 3).encode(encoding, "ignore"))
    assert decoded == (text * 3).encode(encoding, "ignore").decode(encoding)


@pytest.mark.parametrize("word", ["café", "It’s", "£20", "naïve", "…", "© 2020", "5 €", "25 °C"])
def test_few_bytes_among_english_are_western(word: str) -> None:
    text = f"The quick brown fox jumps over the lazy dog, {word} and so on.\n"
    assert decode(text.encode("cp1252")) == (text, "windows-1252")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_unicode_needs_no_guess(encoding: str) -> None:
    assert decode(RUSSIAN.encode(encoding)) == (RUSSIAN, None)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", [RUSSIAN, CHINESE, "plain ASCII\n"])
def test_wide_unicode_without_a_mark(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == (text, encoding)


@pytest.mark.parametrize(
    "declaration",
    ['<?xml version="1.0" encoding="koi8-r"?>', '<meta charset="koi8-r">', "# -*- coding: koi8-r -*-"],
)
def test_declared_encoding_is_believed_when_it_fits(declaration: str) -> None:
    text = f"{declaration}\nда"
    assert decode(text.encode("koi8-r")) == (text, None)
    assert decode(b'<?xml version="1.0" encoding="nonsense"?>\xe9t\xe9')[0].endswith("été")


def test_damaged_utf8_stays_utf8() -> None:
    text, guessed = decode(RUSSIAN.encode() * 3 + b"\xff" + RUSSIAN.encode())
    assert text == RUSSIAN * 3 + "\ufffd" + RUSSIAN
    assert guessed == "utf-8"


@settings(max_examples=count(33, 100), deadline=None)
@given(st.binary(max_size=400))
def test_decode_never_raises(data: bytes) -> None:
    text, guessed = decode(data)
    assert isinstance(text, str)
    assert guessed is None or guessed


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200))
def test_utf8_is_never_guessed(text: str) -> None:
    data = text.encode("utf-8", "ignore")
    if b"\0" not in data and b"\x1b" not in data:
        assert decode(data) == (data.decode().removeprefix("\ufeff"), None)


def test_parse_notes_the_guess() -> None:
    parsed = parse(GERMAN.encode("cp1252"), "brief.txt")
    assert (parsed.text, parsed.kind) == (GERMAN, TextKind.PROSE)
    assert parsed.notes == ("encoding guessed: windows-1252",)


def test_blank_file_is_empty() -> None:
    found = registry.run("text", b" \n\t\n", "a.txt")
    assert isinstance(found, ParseFailure)
    assert found.reason is Reason.EMPTY
