"""Words of anybody, where Streamlit reads Markdown."""

from __future__ import annotations

import ast
import re
from html import unescape
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from ragforge.interfaces import ui
from ragforge.interfaces.ui.look import bar, chip, quiet, table

_FOLDER = Path(ui.__file__).parent
_READS_MARKDOWN = {
    "markdown", "info", "warning", "error", "success", "caption", "header", "subheader", "title", "toast", "button",
    "toggle", "checkbox", "expander", "popover", "download_button", "text_area", "progress", "metric", "selectbox",
}  # fmt: skip
_SAFE = {"quiet", "problem_text", "next_step", "missing_text", "count", "ago", "duration", "price", "size_text", "len"}


@pytest.mark.parametrize(
    "lively",
    ["www.evil.example", "https://evil.example", "me@evil.example", ":material_delete:", ":streamlit:", "a -> b"],
)
def test_what_would_come_alive_is_parted(lively: str) -> None:
    said = quiet(lively)
    assert said.replace("\u2060", "").replace("\\", "") == lively
    assert "\u2060" in said


@pytest.mark.parametrize("name", ["Returns and refunds 2026", "shipping_cost.py", "returns-and-refunds.md", "x = y"])
def test_plain_words_stay_as_they_are(name: str) -> None:
    assert quiet(name) == name


@pytest.mark.parametrize(
    "text",
    ["# a", "  # a", "a\n - b", "> a", "1. a", "_a_ __b__", "*a* `b` ~~c~~", "[a](b) ![c](d)", "<b>", "$x$", "&lt;"],
)
def test_signs_of_markdown_are_only_signs(text: str) -> None:
    shown = MarkdownIt("commonmark", {"html": True}).enable("strikethrough").render(quiet(text))
    assert set(re.findall(r"<(\w+)", shown)) <= {"p"}
    assert unescape(re.sub(r"</?p>", "", shown)).split() == text.split()


def test_html_of_our_own_escapes_what_it_is_given() -> None:
    assert "<b>" not in chip("<b>")
    assert "<b>" not in table(("<b>",), [])
    assert "width:100%" in bar(7.0)
    assert "width:0%" in bar(-1.0)


def test_no_words_of_others_reach_a_label_bare() -> None:
    """Every value in an f-string for Streamlit goes through `quiet`, or is a figure of ours."""
    bare = []
    for file in sorted(_FOLDER.glob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr in _READS_MARKDOWN and call.args and isinstance(call.args[0], ast.JoinedStr):
                bare += [f"{file.name}:{call.lineno}: {ast.unparse(value)}" for value in _bare(call.args[0])]
    assert not bare


def _bare(text: ast.JoinedStr) -> list[ast.expr]:
    values = [part for part in text.values if isinstance(part, ast.FormattedValue)]
    return [value.value for value in values if not _is_safe(value)]


def _is_safe(value: ast.FormattedValue) -> bool:
    if value.format_spec is not None:  # a number
        return True
    inner = value.value
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name):
        return inner.func.id in _SAFE
    if isinstance(inner, ast.IfExp):
        return all(isinstance(each, ast.Constant) or _is_call(each) for each in (inner.body, inner.orelse))
    return isinstance(inner, ast.Name) and inner.id in _OURS


def _is_call(each: ast.expr) -> bool:
    return isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in _SAFE


_OURS = {
    "name", "text", "title", "hint", "why", "old", "doing", "main", "label", "understood", "done", "waiting",
    "told_how_far",
}  # fmt: skip
"""Variables that hold words of the page itself, or words that are quiet already."""
