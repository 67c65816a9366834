"""Text as harmless HTML: answers with citations to click, passages with the supporting words marked.

Whatever a document or a model wrote is escaped; only the tags that are written here reach the page. Nothing in it is
loaded from elsewhere: images are their words, and of links only those of answers, which were checked, lead somewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.token import Token

from ragforge.domain.answers import Citation

_CITE, _CITED = "\ue000", "\ue001"
"""Around the number of a citation, while the text around it becomes HTML."""
_MARK, _MARKED = "\ue002", "\ue003"
"""Around words that are to be marked."""
_PRIVATE = re.compile("[\ue000-\ue003]")
_CITATION = re.compile(f"{_CITE}([0-9]+){_CITED}")
_MARKER = re.compile(r"(?<![\w\]])\[([0-9]{1,3})\]|(?<=\])\[([0-9]{1,3})\]")
_TAG = re.compile(r"(<[^>]*>)")
_FRONT_MATTER = re.compile(r"\A---(\n.*?)\n---(?=\n)", re.DOTALL)
"""Facts before a text; else they would look like a heading."""
_WORD = re.compile(r"\w+")
_NUMBERED = re.compile(r"(?m)^[ \t>]*(\d{1,9})[.)][ \t]")
"""The number that begins an item of a list."""
_SAFE_LINK = re.compile(r"https?://", re.IGNORECASE)


def answer_html(text: str, citations: Sequence[Citation] = (), sources: Iterable[int] = ()) -> str:
    """An answer; each citation is a button. While it is being written there are no citations yet, only sources."""
    plain = _PRIVATE.sub("", text)
    if citations and plain == text:
        spans = [(each.start, each.end, each.marker) for each in citations]
    else:
        known = frozenset(sources) | {each.marker for each in citations}
        found = ((match, int(match[1] or match[2])) for match in _MARKER.finditer(plain))
        spans = [(match.start(), match.end(), number) for match, number in found if number in known]
    doubtful = {each.marker: each.reason for each in citations if not each.proved}
    return _CITATION.sub(lambda match: _button(int(match[1]), doubtful), _rendered(_with_numbers(plain, spans), True))


def _with_numbers(text: str, spans: Sequence[tuple[int, int, int]]) -> str:
    """Markers may share a bracket or stand in one another's place: what was replaced already stays."""
    parts, end = [], 0
    for start, stop, number in sorted(set(spans)):
        if start < end:
            parts.append(f"{_CITE}{number}{_CITED}")
            continue
        parts += [text[end:start], f"{_CITE}{number}{_CITED}"]
        end = stop
    return "".join((*parts, text[end:]))


def _button(number: int, doubtful: Mapping[int, str]) -> str:
    label = f"Source {number}"
    if number not in doubtful:
        return f'<button type="button" class="cite" data-cite="{number}" aria-label="{label}">{number}</button>'
    told = escape(f"not proved: {doubtful[number]}", quote=True)
    return (
        f'<button type="button" class="cite doubtful" data-cite="{number}" aria-label="{label}, {told}" '
        f'title="{told}">{number}?</button>'
    )


def passage_html(text: str, start: int = 0, end: int = 0) -> str:
    """A passage of a document, with `text[start:end]` marked, from its first word to its last."""
    return _marked(_rendered(_with_mark(text, start, end), False))


def _with_mark(text: str, start: int, end: int) -> str:
    """Marks stand beside words, so that they change nothing of what begins or ends a line of Markdown."""
    hidden = _PRIVATE.sub("\ufffd", _FRONT_MATTER.sub(r"```\1\n```", text))
    numbers = {match.start(1) for match in _NUMBERED.finditer(hidden, 0, end)}
    words = [match.span() for match in _WORD.finditer(hidden, start, end) if match.start() not in numbers]
    if not words:
        return hidden
    first, last = words[0][0], words[-1][1]
    return f"{hidden[:first]}{_MARK}{hidden[first:last]}{_MARKED}{hidden[last:]}"


def _marked(html: str) -> str:
    """The marks as tags, opened and closed again in every piece of text between two tags."""
    shown, inside = [], False
    for piece in _TAG.split(html):
        if piece.startswith("<"):  # our own tags: in the text itself it is escaped
            inside = _MARK in piece or (inside and _MARKED not in piece)  # after ``` the language is in a tag
            shown.append(_PRIVATE.sub("", piece))
            continue
        for part in re.split(f"([{_MARK}{_MARKED}])", piece):
            if part in (_MARK, _MARKED):
                inside = part == _MARK
            elif part:
                shown.append(f"<mark>{part}</mark>" if inside and part.strip() else part)
    return "".join(shown)


def around(text: str, start: int, end: int, margin: int = 700) -> tuple[str, int, int]:
    """A piece of a long text around some of its words, cut at paragraphs or lines, and where these now stand."""
    first, last = max(0, start - margin), min(len(text), end + margin)
    if first:
        cut = text.find("\n\n", first, start)
        cut = cut if cut >= 0 else text.find("\n", first, start)
        first = cut + 1 if cut >= 0 else first
    if last < len(text):
        cut = text.rfind("\n\n", end, last)
        cut = cut if cut >= 0 else text.rfind("\n", end, last)
        last = cut if cut >= 0 else last
    return text[first:last], start - first, end - first


def seek(text: str, quote: str) -> tuple[int, int] | None:
    """Where a quote stands, whatever white space and marks are between its words; None: not for sure."""
    words = re.findall(r"\w+", quote)
    if not words:
        return None
    found = [match.span() for match in re.finditer(r"\W+".join(map(re.escape, words)), text)]
    return found[0] if found else None


def plain_html(text: str) -> str:
    """Text as it is, lines kept."""
    return escape(text).replace("\n", "<br>")


# -- Markdown


def _rendered(text: str, with_links: bool) -> str:
    return str(_markdown(with_links).render(text))


@cache
def _markdown(with_links: bool) -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    markdown.add_render_rule("image", _alternative)
    markdown.add_render_rule("link_open", _link_open if with_links else _no_link)
    markdown.add_render_rule("link_close", _link_close if with_links else _no_link)
    return markdown


def _alternative(self: RendererProtocol, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """An image is its words: who looks at a page tells nobody."""
    return escape(tokens[index].content)


def _no_link(self: RendererProtocol, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    return ""


def _link_open(self: RendererProtocol, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    target = str(tokens[index].attrGet("href") or "")
    if not _SAFE_LINK.match(target):
        return "<span>"
    return f'<a href="{escape(target, quote=True)}" target="_blank" rel="noopener noreferrer">'


def _link_close(self: RendererProtocol, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    depth = 0
    for token in reversed(tokens[:index]):
        depth += (token.type == "link_close") - (token.type == "link_open")
        if depth < 0:
            return "</a>" if _SAFE_LINK.match(str(token.attrGet("href") or "")) else "</span>"
    return ""
