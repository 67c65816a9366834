"""Text as harmless HTML: answers with citations to click, passages with the supporting words marked.

Whatever a document or a model wrote is escaped; only the tags that are written here reach the page. Nothing in it is
loaded from elsewhere: images are their words, and of links only those of answers, which were checked, lead somewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from secrets import token_hex
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.token import Token

from ragforge.domain.answers import Citation

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Around what stands for a tag while the text around it becomes HTML. A word that nobody knows is part of it, so that
no document can write one."""
_MARKER = re.compile(r"(?<![\w\]])\[([0-9]{1,3})\]|(?<=\])\[([0-9]{1,3})\]")
_TAG = re.compile(r"(<[^>]*>)")
_FRONT_MATTER = re.compile(r"\A---(\n.*?)\n---(?=\n)", re.DOTALL)
"""Facts before a text; else they would look like a heading."""
_WORD = re.compile(r"\w+")
_NUMBERED = re.compile(r"(?m)^[ \t>]*(\d{1,9})[.)][ \t]")
"""The number that begins an item of a list."""
_SAFE_LINK = re.compile(r"https?://", re.IGNORECASE)


def answer_html(
    text: str, citations: Sequence[Citation] = (), sources: Iterable[int] = (), *, links: bool = True
) -> str:
    """An answer; each citation is a button. While it is being written there are no citations yet, only sources.

    Without `links` nothing in it leads elsewhere: the text may be anybody's.
    """
    if citations:
        spans = [(each.start, each.end, each.marker) for each in citations]
    else:
        known = frozenset(sources)
        found = ((match, int(match[1] or match[2])) for match in _MARKER.finditer(text))
        spans = [(match.start(), match.end(), number) for match, number in found if number in known]
    doubtful = {each.marker: each.reason for each in citations if not each.proved}
    word = token_hex(8)
    place = re.compile(f"{_OPEN}{word}([0-9]+){_CLOSE}")
    in_code = False
    shown = []
    for piece in _pieces(_rendered(_with_numbers(text, spans, word), links)):
        is_tag = piece.startswith("<")
        in_code = (in_code or piece.startswith("<code")) and piece != "</code>"
        if is_tag or in_code:  # there a marker is what it looks like
            shown.append(place.sub(r"[\1]", piece))
        else:
            shown.append(place.sub(lambda match: _button(int(match[1]), doubtful), piece))
    return "".join(shown)


def _with_numbers(text: str, spans: Sequence[tuple[int, int, int]], word: str) -> str:
    """Markers may share a bracket: what was replaced already stays."""
    parts, end = [], 0
    for start, stop, number in sorted(set(spans)):
        if start >= end:
            parts.append(text[end:start])
            end = stop
        parts.append(f"{_OPEN}{word}{number}{_CLOSE}")
    return "".join((*parts, text[end:]))


def _pieces(html: str) -> list[str]:
    """Tags and the texts between them; what was text before is escaped, so every tag is ours."""
    return [piece for piece in _TAG.split(html) if piece]


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
    word = token_hex(8)
    begins, ends = f"{_OPEN}{word}1{_CLOSE}", f"{_OPEN}{word}0{_CLOSE}"
    html = _rendered(_with_mark(_FRONT_MATTER.sub(r"```\1\n```", text), start, end, begins, ends), False)
    shown, inside = [], False
    for piece in _pieces(html):
        if piece.startswith("<"):
            inside = begins in piece or (inside and ends not in piece)  # after ``` the language is in a tag
            shown.append(piece.replace(begins, "").replace(ends, ""))
            continue
        for part in re.split(f"({begins}|{ends})", piece):
            if part in (begins, ends):
                inside = part == begins
            elif part:
                shown.append(f"<mark>{part}</mark>" if inside and part.strip() else part)
    return "".join(shown)


def _with_mark(text: str, start: int, end: int, begins: str, ends: str) -> str:
    """Marks stand beside words, so that they change nothing of what begins or ends a line of Markdown."""
    numbers = {match.start(1) for match in _NUMBERED.finditer(text, 0, end)}
    words = [match.span() for match in _WORD.finditer(text, start, end) if match.start() not in numbers]
    if not words:
        return text
    first, last = words[0][0], words[-1][1]
    return f"{text[:first]}{begins}{text[first:last]}{ends}{text[last:]}"


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
    """Where a quote first stands, whatever white space and marks are between its words."""
    words = _WORD.findall(quote)
    found = re.search(r"(?<!\w)" + r"\W+".join(map(re.escape, words)) + r"(?!\w)", text) if words else None
    return found.span() if found else None


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
