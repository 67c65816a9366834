"""Markdown as it is; only its title is looked up."""

from __future__ import annotations

import re

from ragforge.domain.documents import Parsed
from ragforge.ingest.parse.plain import decode, decode_notes
from ragforge.ingest.parse.text import bounded, clean

_LOOK = 20_000
_LONGEST = 300
_TITLE = re.compile(r"^title:(.+)$", re.MULTILINE | re.IGNORECASE)
_HEADING = re.compile(r" {0,3}#{1,6}[ \t](.+)$")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-{2,})[ \t]*$")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def parse(data: bytes, name: str) -> Parsed:
    text, guessed = decode(data)
    text = bounded(clean(text))
    return Parsed(text, title=title(text), notes=decode_notes(guessed))


def title(text: str) -> str | None:
    """The title in the front matter, or the first heading."""
    front, body = _front_matter(text[:_LOOK])
    match = _TITLE.search(front)
    if match:
        return match[1].strip().strip("\"'")[:_LONGEST] or None
    heading = (_first_heading(body) or "").strip()[:_LONGEST]
    bare = _LINK.sub(r"\1", heading).replace("*", "").replace("`", "")
    return re.sub(r" #+$", "", bare).strip() or None


def _front_matter(text: str) -> tuple[str, str]:
    """The lines between `---` at the very start, and what follows them."""
    if not text.startswith("---\n"):
        return "", text
    front, closing, body = text[4:].partition("\n---")
    return (front, body) if closing else ("", text)


def _first_heading(text: str) -> str | None:
    fence = ""
    previous = ""
    for line in text.split("\n"):
        opened = _FENCE.match(line)
        if opened and (not fence or opened[1].startswith(fence)):
            fence = "" if fence else opened[1]
        elif not fence:
            match = _HEADING.match(line)
            if match:
                return match[1]
            if previous.strip() and _UNDERLINE.match(line) and not previous.lstrip().startswith(("-", "|", ">", "*")):
                return previous
        previous = line
    return None
