"""Which language a text is probably in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.language import NAMES, detect, foreign_to
from tests.proof import count

TEXTS = {
    "en": "The desk is returned within thirty days of delivery and the price of it is paid to the card.",
    "de": "Der Tisch wird innerhalb von dreißig Tagen zurückgegeben und das Geld ist auf der Karte. Die Karte ist da.",
    "fr": "Le bureau est rendu dans les trente jours et le prix est payé sur la carte pour vous et avec une lettre.",
    "es": "El escritorio se devuelve en los treinta días y el precio se paga con la tarjeta para que esté bien.",
    "ru": "Стол можно вернуть в течение тридцати дней после доставки.",
    "ja": "机は三十日以内に返品できます。代金はカードに戻ります。よろしくお願いします。",
    "zh": "书桌可以在三十天内退货，款项将退回到您的银行卡上，请保留您的收据和原包装。",
    "ko": "책상은 삼십일 이내에 반품할 수 있으며 대금은 카드로 환불됩니다.",
    "el": "Το γραφείο μπορεί να επιστραφεί μέσα σε τριάντα ημέρες.",
    "he": "ניתן להחזיר את השולחן בתוך שלושים יום ממועד המסירה.",
    "ar": "يمكن إرجاع المكتب خلال ثلاثين يوما من تاريخ التسليم.",
}


@pytest.mark.parametrize("code", TEXTS)
def test_a_sentence_tells_its_language(code: str) -> None:
    assert detect(TEXTS[code]) == code


@pytest.mark.parametrize("text", ["", "1234 5678", "ok", "x = foo(bar) + baz[qux] # 42 frobnicate widgets"])
def test_too_little_to_tell(text: str) -> None:
    assert detect(text) is None


def test_foreign_is_what_the_model_does_not_know() -> None:
    assert foreign_to(("en",), TEXTS["de"]) == "German"
    assert foreign_to(("en", "de"), TEXTS["de"]) is None
    assert foreign_to(None, TEXTS["de"]) is None
    assert foreign_to(("en",), "12345") is None


@settings(max_examples=count(20, 60), deadline=None)
@given(st.text(max_size=500))
def test_any_text_has_a_known_name_or_none(text: str) -> None:
    assert detect(text) is None or detect(text) in NAMES
