"""Source code is kept to the letter."""

from __future__ import annotations

from ragforge.domain.documents import TextKind
from ragforge.ingest.parse.code import parse

SOURCE = "def f(x):\n\tif x:  # why\n        return '''\n\n  |x|\n'''\n"


def test_code_is_kept_exactly() -> None:
    parsed = parse(SOURCE.encode(), "a.py")
    assert (parsed.text, parsed.kind, parsed.title, parsed.notes) == (SOURCE, TextKind.CODE, None, ())


def test_declared_encoding() -> None:
    text = "# -*- coding: cp1251 -*-\nname = 'Привет'\n"
    assert parse(text.encode("cp1251"), "a.py").text == text


def test_hidden_bidi_controls_do_not_survive() -> None:
    assert parse("ok = 'user\u202e \u2066# admin\u2069'\n".encode(), "a.py").text == "ok = 'user # admin'\n"
