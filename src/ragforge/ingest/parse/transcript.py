"""Speech with its times: .vtt, .srt, .sbv, and the JSON that YouTube and Whisper write.

Each cue becomes one line, marked with its start, end and speaker. The first of a turn is `Speaker: words`.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ragforge.domain.documents import Parsed, TextKind
from ragforge.ingest.parse.plain import decode, decode_notes
from ragforge.ingest.parse.text import MarkedText, bounded, clean

_TIME = r"-?(?:\d+:)?\d{1,2}:\d{1,2}(?:[.,]\d{1,3})?"
_CUE_TIME = re.compile(rf"\s*({_TIME})\s*-+>\s*({_TIME})(?:\s.*)?$")
_SBV_TIME = re.compile(r"\s*(\d+:\d\d:\d\d\.\d{1,3}),(\d+:\d\d:\d\d\.\d{1,3})\s*$")
_BLOCK = re.compile(r"(?:WEBVTT|NOTE|STYLE|REGION)(?:\s|$)")
_VOICE = re.compile(r"<v(?:\.[^\s<>]{0,100})?[ \t]+([^<>\n]{1,200})>")
_TAG = re.compile(r"</?[a-zA-Z\d][^<>]{0,200}>|\{\\[^{}]{0,200}\}")
_LABEL = re.compile(r"(?:>>+\s*|-\s+)?([^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’()-]*){0,3}):\s+(?=\S)")
_ROLLING_GAP = 1.0
_ROLLING_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Cue:
    """Words said from `start` to `end`, in the lines they were shown in."""

    start: float
    end: float
    lines: tuple[str, ...]
    speaker: str | None = None


def parse(data: bytes, name: str) -> Parsed:
    text, guessed = decode(data)
    text = clean(text)
    cues, notes = _read(text.split("\n"))
    notes = (*decode_notes(guessed), *notes)
    if not cues:
        return Parsed(bounded(text), notes=(*notes, "no time codes found: kept as plain text"))
    return render(cues, notes)


def render(cues: Sequence[Cue], notes: tuple[str, ...] = ()) -> Parsed:
    """Cues as marked text, what rolling captions repeat left out."""
    marked = MarkedText()
    labels = _labels(cues)
    before: str | None = None
    for cue in _without_repeats(cues):
        words = " ".join(cue.lines)
        label = _LABEL.match(words)
        named = label[1] if label and label[1] in labels else None
        speaker = cue.speaker or named
        if label and named and named == speaker:
            words = words[label.end() :]
        line = f"{speaker}: {words}" if speaker and speaker != before else words
        marked.add(line + "\n", start=cue.start, end=max(cue.start, cue.end), speaker=speaker)
        before = speaker
    return Parsed(marked.text, TextKind.TRANSCRIPT, marked.marks, notes=notes)


# Captions in text


def _read(lines: Sequence[str]) -> tuple[list[Cue], tuple[str, ...]]:
    """The cues, and notes on what was wrong with some of them."""
    cues: list[Cue] = []
    untimed = 0
    shown: list[str] = []
    timed: tuple[float, float] | None = None
    skipping, blank = False, True
    for number, line in enumerate(lines):
        times = _times(line)
        if times:
            cues += _cues(timed, shown)
            timed, shown, skipping = times, [], False
        elif not line.strip():
            skipping = False
        elif skipping or (blank and _BLOCK.match(line)) or (timed is None and "-->" not in line):
            skipping = skipping or bool(_BLOCK.match(line))
        elif "-->" in line or (blank and shown and not _is_identifier(lines, number)):
            untimed += 1
            shown += [] if "-->" in line else [line]
        elif not _is_identifier(lines, number) or not (blank or line.strip().isdigit()):
            shown.append(line)
        blank = not line.strip()
    cues += _cues(timed, shown)
    note = f"{untimed} cue(s) without a readable time: their words are kept with the cue before"
    return cues, (note,) if untimed else ()


def _times(line: str) -> tuple[float, float] | None:
    match = _CUE_TIME.match(line) or _SBV_TIME.match(line)
    return (_seconds(match[1]), _seconds(match[2])) if match else None


def _seconds(clock: str) -> float:
    """`1:02:03,5` in seconds; what lies before the beginning is the beginning."""
    if clock.startswith("-"):
        return 0.0
    seconds = 0.0
    for part in clock.replace(",", ".").split(":"):
        seconds = seconds * 60 + float(part)
    return round(seconds, 3)


def _is_identifier(lines: Sequence[str], number: int) -> bool:
    """Whether this line names the cue that starts on the next."""
    return number + 1 < len(lines) and ("-->" in lines[number + 1] or _SBV_TIME.match(lines[number + 1]) is not None)


def _cues(times: tuple[float, float] | None, shown: Iterable[str]) -> Iterator[Cue]:
    """The cue of these lines, one for each voice in it; none if it says nothing."""
    if times is None:
        return
    speaker: str | None = None
    words = "\n".join(shown)
    for place, part in enumerate(_VOICE.split(words)):
        if place % 2:
            speaker = html.unescape(part).strip() or None
            continue
        lines = tuple(" ".join(html.unescape(_TAG.sub("", line)).split()) for line in part.split("\n"))
        if any(lines):
            yield Cue(*times, tuple(filter(None, lines)), speaker)


def _labels(cues: Iterable[Cue]) -> set[str]:
    """Names before a colon that come back: speakers, written into the words."""
    found = Counter(match[1] for cue in cues if cue.lines and (match := _LABEL.match(cue.lines[0])))
    return {label for label, count in found.items() if count > 1}


def _without_repeats(cues: Sequence[Cue]) -> Iterator[Cue]:
    """The cues; where captions roll (each shows the last line again), only what is new in each."""
    fresh = [_fresh_lines(before, cue) for before, cue in pairwise(cues)]
    repeats = sum(lines != cue.lines for lines, cue in zip(fresh, cues[1:], strict=True))
    if repeats < _ROLLING_SHARE * len(cues):
        yield from cues
        return
    for cue, lines in zip(cues, (cues[0].lines, *fresh), strict=True):
        if lines:
            yield replace(cue, lines=lines)


def _fresh_lines(before: Cue, cue: Cue) -> tuple[str, ...]:
    """The lines that the cue before did not show already."""
    if abs(cue.start - before.end) > _ROLLING_GAP and not before.start <= cue.start <= before.end:
        return cue.lines
    for size in range(min(len(before.lines), len(cue.lines)), 0, -1):
        if before.lines[-size:] == cue.lines[:size]:
            return cue.lines[size:]
    if cue.lines[0].startswith(before.lines[-1] + " "):
        return (cue.lines[0][len(before.lines[-1]) :].strip(), *cue.lines[1:])
    return cue.lines


# Captions in JSON


def from_json(value: object) -> list[Cue] | None:
    """The cues in a transcript's JSON, or None if it is something else."""
    if isinstance(value, Mapping):
        inner = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
        return None if inner is None else from_json(inner)
    if not isinstance(value, list) or not value:
        return None
    cues = [_json_cue(item) for item in value]
    found = [cue for cue in cues if cue is not None]
    if len(found) * 2 < len(cues):
        return None
    return [cue for cue in found if cue.lines] or None


_LISTS = ("events", "segments", "snippets", "transcript", "captions", "cues")


def _json_cue(item: object) -> Cue | None:
    """One segment of YouTube (`start`, `duration` or `tStartMs`, `segs`) or Whisper (`start`, `end`)."""
    if not isinstance(item, Mapping):
        return None
    if "tStartMs" in item:
        start, length = _number(item["tStartMs"]), _number(item.get("dDurationMs", 0))
        pieces = item.get("segs", [])
        parts = (
            [piece.get("utf8", "") for piece in pieces if isinstance(piece, Mapping)]
            if isinstance(pieces, list)
            else []
        )
        return (
            None if start is None else _spoken(start / 1000, (start + (length or 0)) / 1000, "".join(map(str, parts)))
        )
    start = _number(item.get("start"))
    length = _number(item.get("duration", item.get("dur")))
    end = _number(item.get("end")) if length is None else (start or 0) + length
    words = item.get("text")
    if start is None or end is None or not isinstance(words, str):
        return None
    speaker = item.get("speaker")
    return _spoken(start, end, words, speaker.strip() or None if isinstance(speaker, str) else None)


def _spoken(start: float, end: float, words: str, speaker: str | None = None) -> Cue:
    lines = tuple(" ".join(html.unescape(_TAG.sub("", line)).split()) for line in words.split("\n"))
    return Cue(round(max(0.0, start), 3), round(end, 3), tuple(filter(None, lines)), speaker)


def _number(value: object) -> float | None:
    """A time in seconds or milliseconds; None for what is no time."""
    try:
        number = float(value) if isinstance(value, (str, int, float)) else None
    except (ValueError, OverflowError):
        return None
    return number if number is not None and abs(number) < 1e12 else None
