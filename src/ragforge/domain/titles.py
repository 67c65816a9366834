"""Headings as people read them."""

from __future__ import annotations

import re

MAX_TITLE = 120

_MARKUP = re.compile(r"[`*_\[\]<>{}\\~!&]")
_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])?")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<!--(?:(?!<!--).)*?-->")
_ATTRIBUTES = re.compile(r"\s*\{[#.:][^{}]*\}\s*$")
_EMPHASIS = re.compile(r"`+|\*+|~~+|(?<!\w)_+|(?<!_)_++(?!\w)|\\(?=[!-/:-@\[-`{-~])")


def plain_title(title: str) -> str:
    """A heading's text without Markdown syntax, in one line of bounded length."""
    title = " ".join(title[: 8 * MAX_TITLE].split())
    if _MARKUP.search(title):
        title = _ATTRIBUTES.sub("", title)
        title = _LINK.sub(r"\1", title)
        title = " ".join(_EMPHASIS.sub("", _TAG.sub("", title)).split())
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1].rstrip() + "…"
