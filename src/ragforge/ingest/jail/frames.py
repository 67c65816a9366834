"""The answer of a child as bytes, read by a parent that trusts none of them.

    lengths | JSON of the small facts | marks as fixed records | text in UTF-8

Marks and text are no JSON, so that a text of 20 MB costs no time and a lying child no memory.
"""

from __future__ import annotations

import json
import math
import struct
from itertools import pairwise
from typing import Any

from ragforge.domain.documents import Mark, Parsed, ParseFailure, Reason, TextKind
from ragforge.ingest.parse.text import MAX_CHARACTERS, clean

MESSAGE_LENGTH = struct.Struct("<I")
"""What stands before a request to the launcher."""

_LENGTHS = struct.Struct("<QQQ")
_MARK = struct.Struct("<qqddq")  # offset, page, start, end, place among the speakers; -1 or NaN for none
_LARGEST_FACTS = 1_000_000
_LONGEST_STRING = 1_000
_MOST_MARKS = 500_000
_LONGEST_TIME = 1e12
_INSIDE_CHARACTER = bytes(range(0x80, 0xC0))


def encode(result: Parsed | ParseFailure) -> bytes:
    """The result as one run of bytes."""
    if isinstance(result, ParseFailure):
        return _join({"reason": result.reason, "message": result.message, "hint": result.hint}, b"", b"")
    speakers = list(dict.fromkeys(mark.speaker for mark in result.marks if mark.speaker is not None))
    place = {speaker: index for index, speaker in enumerate(speakers)}
    marks = b"".join(
        _MARK.pack(
            mark.offset,
            -1 if mark.page is None else mark.page,
            math.nan if mark.start is None else mark.start,
            math.nan if mark.end is None else mark.end,
            -1 if mark.speaker is None else place[mark.speaker],
        )
        for mark in result.marks
    )
    facts = {"kind": result.kind, "title": result.title, "notes": result.notes, "speakers": speakers}
    return _join(facts, marks, result.text.encode("utf-8", "replace"))


def decode(frame: bytes | bytearray, most_characters: int = MAX_CHARACTERS) -> Parsed | ParseFailure:
    """The result in `frame`. Raises ValueError for anything that `encode` would not have written."""
    if len(frame) < _LENGTHS.size:
        raise ValueError("answer cut short")
    lengths = _LENGTHS.unpack_from(frame)
    if sum(lengths) + _LENGTHS.size != len(frame) or lengths[0] > _LARGEST_FACTS or lengths[1] % _MARK.size:
        raise ValueError("answer of the wrong length")
    if lengths[1] > _MOST_MARKS * _MARK.size:
        raise ValueError("too many marks")
    view = memoryview(frame)
    marks_at = _LENGTHS.size + lengths[0]
    text_at = marks_at + lengths[1]
    try:
        facts = json.loads(bytes(view[_LENGTHS.size : marks_at]))
    except RecursionError as problem:
        raise ValueError("facts nested too deeply") from problem
    if not isinstance(facts, dict):
        raise ValueError("facts of the wrong kind")
    if "reason" in facts:
        message, hint = (_string(facts.get(key)) for key in ("message", "hint"))
        return ParseFailure(Reason(facts["reason"]), message, hint)
    text = _text(view[text_at:], most_characters)
    speakers = _strings(facts.get("speakers"))
    marks = tuple(_mark(record, len(text), speakers) for record in _MARK.iter_unpack(view[marks_at:text_at]))
    if any(mark.offset < before.offset for before, mark in pairwise(marks)):
        raise ValueError("marks out of order")
    return Parsed(
        text=text,
        kind=TextKind(_string(facts.get("kind"))),
        marks=marks,
        title=None if facts.get("title") is None else _string(facts["title"]),
        notes=_strings(facts.get("notes")),
    )


def _join(facts: dict[str, Any], marks: bytes, text: bytes) -> bytes:
    header = json.dumps(facts).encode()
    return b"".join((_LENGTHS.pack(len(header), len(marks), len(text)), header, marks, text))


def _text(data: memoryview, most_characters: int) -> str:
    """The text, unless it is longer than allowed; counted first, since one wide character widens all others."""
    if len(data) > most_characters and len(bytes(data).translate(None, _INSIDE_CHARACTER)) > most_characters:
        raise ValueError("more text than allowed")
    text = str(data, "utf-8")
    if "\0" in text:
        raise ValueError("text that no store can hold")
    return text


def _mark(record: tuple[Any, ...], length: int, speakers: tuple[str, ...]) -> Mark:
    offset, page, start, end, speaker = record
    if not 0 <= offset <= length or page < -1 or not -1 <= speaker < len(speakers):
        raise ValueError("a mark outside the text")
    if any(not 0 <= time <= _LONGEST_TIME for time in (start, end) if not math.isnan(time)):
        raise ValueError("a time that no recording has")
    return Mark(
        offset,
        None if page == -1 else page,
        None if math.isnan(start) else start,
        None if math.isnan(end) else end,
        None if speaker == -1 else speakers[speaker],
    )


def _string(value: object) -> str:
    """A short text, cleaned: what is no UTF-8 or holds a NUL would stop the store."""
    if not isinstance(value, str):
        raise ValueError("no text where text belongs")
    return clean(value[:_LONGEST_STRING])


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("no list where a list belongs")
    return tuple(_string(item) for item in value)
