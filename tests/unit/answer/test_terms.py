from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragforge.retrieve.words import index_terms, terms_of

GERMAN = ("Die Stühle und die Tische sind mit dem Öl von der Insel behandelt.", "Häuser und Schränke.")


@given(st.text(max_size=200))
def test_one_piece_has_the_terms_of_the_index(text: str) -> None:
    assert terms_of([text]) == [index_terms(text)[1:]]


def test_pieces_are_in_the_language_of_all() -> None:
    together, alone = terms_of(GERMAN), terms_of(GERMAN[1:])
    assert together[1] == ("haus", "und", "schrank")
    assert together[1] != alone[0], "too short to tell its language by itself"
