"""Data files and transcripts to an outline: top-level keys, cues and speaker turns."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from ragforge.domain.documents import Mark
from ragforge.domain.titles import MAX_TITLE, plain_title
from ragforge.ingest.split.outline import ITEM, KEY, LINES, NESTED, PARAGRAPH, SENTENCES, Outline

_KEY = re.compile(
    r"(?:\"([^\"\n]{1,200})\"|'([^'\n]{1,200})'|\[{1,2}([^\]\n]{1,200})\]{1,2}|([\w./$ -]{1,200}?))"
    r"[ \t]{0,20}(?:[:=]|$)"
)
_HEADING = re.compile(r"(#{1,6})[ \t]+(\S[^\n]{0,1000})")
_TURN = re.compile(
    r"(?:[\[(]?\d[\d:.,]*[\])]?[ \t]*)?(?:\*\*)?([^\W\d_][\w .'’-]{0,40}?)(?:\*\*)?[ \t]{0,20}"
    r"(?:[\[(]\d[\d:.,]*[\])])?:"
)
_SENTENCE_ENDS = tuple('.!?…。！？"”’»')


def scan_data(text: str) -> Outline:
    """The outline of JSON, YAML, TOML and the like. A `#` line between blank lines is a heading, else a comment."""
    outline = Outline()
    position, after_blank, comment = 0, True, -1
    column = _key_column(text)
    for line in io.StringIO(text):
        here, position = position, position + len(line)
        body = line.strip()
        if not body:
            after_blank, comment = True, -1
            continue
        if body[0] == "#" or body.startswith("//"):
            found = _HEADING.match(body) if after_blank and text.startswith("\n", position) else None
            if found:
                outline.heading(here, position, len(found[1]), plain_title(found[2]))
            elif comment < 0:
                comment = here
                if after_blank:
                    outline.add(here, PARAGRAPH, LINES)
        else:
            _data_line(outline, line, body, here, column, comment, after_blank)
            comment = -1
        after_blank = False
    return outline


def _key_column(text: str) -> int:
    """The column of the outermost keys: 0, or where they begin inside JSON's outer brackets."""
    opening = text.lstrip()[:1]
    if opening not in ("{", "["):
        return 0
    inner = re.compile(r"\s*[{\[][ \t]*\n([ \t]*)").match(text)
    return len(inner[1]) if inner else 0


def _data_line(outline: Outline, line: str, body: str, here: int, column: int, comment: int, after_blank: bool) -> None:
    indent = len(line) - len(line.lstrip())
    if indent <= column and body[0] not in "}])":
        start = here if comment < 0 else comment
        found = _KEY.match(body) if indent == column and body[0] != "-" else None
        if outline.starts and outline.starts[-1] == start:
            outline.ranks[-1] = min(KEY, outline.ranks[-1])
        else:
            outline.add(start, KEY if found else ITEM, LINES)
        if found:
            name = next(group for group in found.groups() if group)
            outline.section(start, here, here + len(name) + 2, KEY, name[:MAX_TITLE])
    elif after_blank or not outline.starts:
        outline.add(here, NESTED, LINES)


def scan_transcript(text: str, marks: Sequence[Mark]) -> Outline:
    """The outline of a transcript: a cut is best where the speaker changes, then at the end of a cue."""
    return _scan_marks(text, marks) if marks else _scan_turns(text)


def _scan_marks(text: str, marks: Sequence[Mark]) -> Outline:
    outline = Outline()
    speaker = None
    for index, mark in enumerate(marks):
        end = marks[index + 1].offset if index + 1 < len(marks) else len(text)
        cue = text[mark.offset : end].strip()
        if cue:
            before = text[max(0, mark.offset - 20) : mark.offset].rstrip()
            rank = PARAGRAPH if mark.speaker != speaker else ITEM if before.endswith(_SENTENCE_ENDS) else NESTED
            if not outline.starts and text[: mark.offset].strip():
                outline.add(0, PARAGRAPH, SENTENCES)
            outline.add(mark.offset, rank, SENTENCES)
            speaker = mark.speaker
    return outline


def _scan_turns(text: str) -> Outline:
    outline = Outline()
    position, speaker, after_blank = 0, "", True
    for line in io.StringIO(text):
        here, position = position, position + len(line)
        body = line.strip()
        if not body:
            after_blank = True
            continue
        found = _TURN.match(body)
        rank = NESTED
        if found:
            rank, speaker = (ITEM if found[1] == speaker else PARAGRAPH), found[1]
        elif after_blank:
            rank = ITEM
        outline.add(here, rank, SENTENCES)
        after_blank = False
    return outline
