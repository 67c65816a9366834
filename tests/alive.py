"""What in a text could make a reader's program go somewhere, as two readers of Markdown see it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

_READERS = [MarkdownIt("commonmark", {"html": True}), MarkdownIt("gfm-like", {"html": True, "linkify": False})]
_LIVE = re.compile(r"(?i)[a-z]:\\?/\\?/|\bwww\.\w|javascript:\w|data:text/|(?<![\w@\\-])evil\.com(?![^\W_]|-)")
_ALIVE_IN_TAG = re.compile(r"(?i)src|href|\bon\w+\s*=|style|<\W*(?:script|svg|img|iframe|!|\?)")
_ALIVE_IN_CODE = re.compile(r"(?i)https?:\\?/\\?/|\bwww\.\w")


def alive(text: str, allowed: Collection[str] = ()) -> list[str]:
    """Links, images, tags and addresses in the text; those that are allowed may stand there as plain text."""
    found: list[str] = []
    for token in _tokens(text):
        found.extend(f"{name}={token.attrs[name]}" for name in ("href", "src") if name in token.attrs)
        content = token.content
        for address in sorted(allowed, key=len, reverse=True):
            content = content.replace(address.replace("&", "&amp;"), "").replace(address, "")
        if token.type in ("html_inline", "html_block") and _ALIVE_IN_TAG.search(content):
            found.append(token.content)
        if token.type == "text" and _LIVE.search(content):
            found.append(token.content)
        if token.type in ("fence", "code_inline", "code_block") and _ALIVE_IN_CODE.search(content):
            found.append(token.content)
    return found


def _tokens(text: str) -> Iterator[Token]:
    for reader in _READERS:
        todo = reader.parse(text)
        while todo:
            token = todo.pop()
            todo += token.children or []
            yield token
