"""R1: passages are found by their words, in any language, by any code, and whatever a person types."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from ragforge.build import Parts
from ragforge.domain.retrieval import Allowed, KeywordRows, Moment
from ragforge.ports import KeywordReader
from ragforge.retrieve.words import LANGUAGE_MARKS, index_terms, languages_in, query_words
from ragforge.settings import load
from tests.proof import count, record

PASSAGES = [
    "The desks are returned within thirty days of the delivery, and the price of it is paid to your card.",
    "The server says ERR-4012 when the certificate of the kube-apiserver v1.28.3 is not valid for this host.",
    "The server says ERR 4013; the number 4012 is for another problem of the ERR family that is not this one.",
    "You are asked for the file /etc/hosts.conf by getHostName() and it is written to user@example.com from C++.",
    "Die Häuser und die Verträge sind nicht mit der Straße verbunden, und das ist für eine Frist von Tagen.",
    "Der Rotwein und der Kaffee sind nicht für die Eiche, und das Öl ist auf der Fläche mit einem Tuch zu reiben.",
    "Les élèves de l'école sont dans les maisons et les informations sur la livraison sont pour vous.",
    "Los escritorios se devuelven con la información de las devoluciones y para los clientes del hotel.",
    "Документы клиентов хранятся десять лет после возврата товаров на склад.",
    "Погода в горах меняется быстро, берите с собой тёплую одежду и воду.",
    "书桌可以在三十天内退货，款项将退回到您的银行卡上，请保留您的收据。",
    "山里的天气变化很快，请带上保暖的衣服和足够的饮用水，并告诉家人您的路线。",
    "机は三十日以内に返品できます。代金はカードに戻ります。USB接口もあります。",
    "책상은 삼십일 이내에 반품할 수 있으며 대금은 카드로 환불됩니다.",
    "โต๊ะสามารถคืนได้ภายในสามสิบวันหลังจากวันที่จัดส่งสินค้าให้ลูกค้า",
    "يمكن إرجاع المكتب خلال ثلاثين يوما من تاريخ التسليم إلى العميل.",
    "Ready for the launch 🚀 of it, and not of that: this is the text: secret, near a b and to the limit.",
]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeywordReader]:
    parts = Parts(load(tmp_path_factory.mktemp("words")))
    index = parts.indexes(Moment("p", "p", 1, 1, 1, "chunker", "embedder", 64, 0.5, None, 1, 0)).keywords
    numbers = np.arange(len(PASSAGES), dtype=np.int64)
    with index.writing(blocking=True):
        index.rebuild([KeywordRows(numbers, numbers, tuple(map(index_terms, PASSAGES)))], 1)
    reader = index.pin()
    yield reader
    reader.release()
    parts.close()


def found(reader: KeywordReader, question: str, k: int = 10) -> list[int]:
    """Places of the passages, once it is sure that each holds a word and scores above zero."""
    words = query_words(question, languages_in(reader.holding(LANGUAGE_MARKS)))
    result = reader.search(words, k, Allowed())
    assert np.isfinite(result.scores).all()
    assert (result.scores > 0).all()
    for place in result.keys.tolist():
        assert set(index_terms(PASSAGES[place])) & set(words.terms)
    return [int(place) for place in result.keys]


@pytest.mark.parametrize(
    ("question", "beginning"),
    [
        ("When can I return a desk?", "The desks"),
        ("ERR-4012", "The server says ERR-4012"),
        ("err4012", "The server says ERR-4012"),
        ("what is wrong with apiserver 1.28", "The server says ERR-4012"),
        ("hosts.conf", "You are asked"),
        ("host name", "You are asked"),
        ("c++", "You are asked"),
        ("Wie lang ist die Frist der Verträge eines Hauses?", "Die Häuser"),
        ("haus", "Die Häuser"),
        ("oel flaeche", "Der Rotwein"),
        ("Ölflecken auf den Flächen", "Der Rotwein"),
        ("informations de livraison", "Les élèves"),
        ("eleve", "Les élèves"),
        ("devolucion de un escritorio", "Los escritorios"),
        ("возврат документа", "Документы"),
        ("ПОГОДА", "Погода"),
        ("теплая одежда", "Погода"),
        ("退货", "书桌"),
        ("天气", "山里"),
        ("返品カード", "机は"),
        ("接口", "机は"),
        ("반품", "책상은"),
        ("ลูกค้า", "โต๊ะ"),
        ("مكتب", "يمكن"),
        ("🚀", "Ready"),
    ],
)
def test_R1_the_passage_that_is_meant_comes_first(reader: KeywordReader, question: str, beginning: str) -> None:
    places = found(reader, question)
    assert places
    assert PASSAGES[places[0]].startswith(beginning)


@pytest.mark.parametrize(
    ("question", "plain"),
    [
        ('"the launch', "the launch"), ("launch*", "launch"), ("NEAR(a b)", "near a b"), ("text:secret", "text secret"),
        ("{a b}:x", "a b x"), ("AND OR NOT", "and or not"), ("^launch", "launch"), ("launch~2", "launch 2"),
        ("[* TO *]", "to"), ("(((", ""), ("*", ""), ('"', ""), ("launch AND -limit", "launch limit"),
        ("'; DROP TABLE words; --", "drop table words"), ("\\launch\\", "launch"), ("words:launch", "words launch"),
    ],
)  # fmt: skip
def test_R1_the_syntax_of_search_engines_is_plain_words(reader: KeywordReader, question: str, plain: str) -> None:
    assert sorted(found(reader, question, 100)) == sorted(found(reader, plain, 100))


@pytest.mark.parametrize("question", ["", " ", "\x00", "\u200b", "...", "zzzzunheard"])
def test_R1_nothing_asked_nothing_found(reader: KeywordReader, question: str) -> None:
    assert found(reader, question) == []


def test_R1_only_small_words_are_words_too(reader: KeywordReader) -> None:
    assert found(reader, "to be or not to be, that is it")


def test_R1_any_text_is_safe(reader: KeywordReader) -> None:
    chance = random.Random(4)
    pieces = [piece for passage in PASSAGES for piece in passage.split()]
    syntax = ['"', "*", " AND ", " OR ", " NOT ", "NEAR", "text:", "{", "}", "^", "~2", "[* TO *]", "(", ")", "\\", "'"]
    kinds: list[Callable[[], str]] = [
        lambda: chr(chance.randrange(0x110000)),
        lambda: chr(chance.randrange(0x250)),
        lambda: chance.choice(syntax),
        lambda: chance.choice(pieces),
        lambda: chance.choice(pieces)[: chance.randrange(4)],
        lambda: " ",
    ]
    number, hits = count(1_000, 20_000), 0
    for _ in range(number):
        text = "".join(chance.choice(kinds)() for _ in range(chance.randrange(1, 25)))
        hits += bool(found(reader, text, chance.choice((1, 10, 1_000))))
    assert 0.3 * number < hits < number
    record("keywords_any_text", strings=number, errors=0, zero_scores=0)


def test_R1_a_huge_text_is_safe(reader: KeywordReader) -> None:
    for text in (" ".join(PASSAGES) * 60, "desk " * 20_000, "漢字" * 50_000, "\ud800" * 100_000, "🚀" * 100_000):
        found(reader, text[:100_000])
    assert found(reader, "filler " * 9_000 + "desk")
