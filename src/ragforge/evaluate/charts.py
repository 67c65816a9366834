"""Small charts as SVG text. Colours come from the page's style, by class; names and tips are HTML already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

_WIDTH, _HEIGHT = 360, 200
"""Narrow enough to be read on a phone at its real size."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 8, 10, 26
_FLOOR = _HEIGHT - _BOTTOM
_MOST_DELTAS = 600
_LEAST_TIME = 0.1


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of one, and perhaps the part it was before."""

    name: str
    value: float
    before: float | None = None


def bars(label: str, rows: Sequence[Bar]) -> str:
    """Lying bars, one for each row; what was before is a thin one under it."""
    step, left, right = 36, 122, 48
    room = _WIDTH - left - right
    parts = []
    for place, row in enumerate(rows):
        y = place * step
        thick = 20 if row.before is None else 13
        parts.append(f'<text class="name" x="{left - 8}" y="{y + 22}" text-anchor="end">{row.name}</text>')
        parts.append(f'<rect class="track" x="{left}" y="{y + 8}" width="{room}" height="20" rx="3"/>')
        parts.append(_rect("this", left, y + 8, row.value * room, thick, f"{row.name} {row.value:.4f}"))
        if row.before is not None:
            parts.append(_rect("other", left, y + 22, row.before * room, 6, f"{row.name} before {row.before:.4f}"))
        parts.append(f'<text class="value" x="{_WIDTH - right + 8}" y="{y + 22}">{row.value:.3f}</text>')
    return _svg(label, parts, len(rows) * step)


def score_histogram(label: str, scores: Sequence[float]) -> str:
    """Eleven columns: exactly zero, and a tenth each up to one."""
    counts = [0] * 11
    for score in scores:
        counts[min(10, max(1, ceil(score * 10 - 1e-9))) if score > 0 else 0] += 1
    ranges = ["0", *(f"{place / 10:.1f} to {(place + 1) / 10:.1f}" for place in range(10))]
    names = ["0", *(f"{place / 10:.1f}" for place in range(1, 11))]
    tips = [f"{name}: {number:,}" for name, number in zip(ranges, counts, strict=True)]
    return _columns(label, counts, names, tips)


def time_histogram(label: str, times: Sequence[float], highest: float) -> str:
    """Up to two dozen columns of milliseconds up to `highest`; the last one also holds what is slower."""
    highest = max(highest, _LEAST_TIME)
    width = _nice(highest / 24)
    size = ceil(highest / width)
    counts = [0] * size
    for time in times:
        counts[min(size - 1, floor(time / width))] += 1
    names = [f"{place * width:g}" if place % 4 == 0 else "" for place in range(size)]
    tips = [f"{place * width:g} to {(place + 1) * width:g} ms: {number:,}" for place, number in enumerate(counts)]
    tips[-1] = f"{(size - 1) * width:g} ms and more: {counts[-1]:,}"
    return _columns(label, counts, names, tips)


def delta_bars(label: str, deltas: Sequence[float]) -> str:
    """Differences, the largest gain first; of very many, evenly spread ones."""
    ordered = sorted(deltas, reverse=True)
    if len(ordered) > _MOST_DELTAS:
        last = len(ordered) - 1
        ordered = [ordered[place * last // (_MOST_DELTAS - 1)] for place in range(_MOST_DELTAS)]
    farthest = _nice(max(abs(ordered[0]), abs(ordered[-1])))
    height = _scale(-farthest, farthest)
    step = (_WIDTH - _LEFT - _RIGHT) / max(len(ordered), 12)
    ticks = [part * farthest for part in (-1, -0.5, 0, 0.5, 1)]
    parts = [_grid(height(tick), f"{tick:+g}".replace("-", "−") if tick else "0") for tick in ticks]
    for place, delta in enumerate(ordered):
        top, bottom = height(max(delta, 0)), height(min(delta, 0))
        kind = "up" if delta > 0 else "down"
        parts.append(_rect(kind, _LEFT + place * step, top, max(step * 0.86, 0.4), bottom - top, f"{delta:+.2f}"))
    return _svg(label, parts)


def _columns(label: str, counts: Sequence[int], names: Sequence[str], tips: Sequence[str]) -> str:
    highest = max(counts) or 1
    height, step = _scale(0, highest), (_WIDTH - _LEFT - _RIGHT) / len(counts)
    parts = [_grid(height(value), f"{value:g}") for value in _ticks(highest)]
    for place, (number, name, tip) in enumerate(zip(counts, names, tips, strict=True)):
        x, y = _LEFT + place * step, height(number)
        if number:
            parts.append(_rect("this", x + step * 0.1, y, step * 0.8, _FLOOR - y, tip))
        if name:
            parts.append(f'<text x="{x + step / 2:.1f}" y="{_HEIGHT - 9}" text-anchor="middle">{name}</text>')
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_FLOOR}" y2="{_FLOOR}"/>')
    return _svg(label, parts)


def _svg(label: str, parts: Iterable[str], height: int = _HEIGHT) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _rect(kind: str, x: float, y: float, width: float, height: float, tip: str) -> str:
    place = f'x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}" rx="{min(2, width / 4):.1f}"'
    return f'<rect class="{kind}" {place}><title>{tip}</title></rect>'


def _grid(y: float, name: str) -> str:
    line = f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return f'{line}<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{name}</text>'


def _scale(low: float, high: float) -> Callable[[float], float]:
    """Values to heights in a chart."""
    return lambda value: _TOP + (_FLOOR - _TOP) * (high - value) / (high - low)


def _ticks(highest: float) -> list[float]:
    step = max(1, _nice(highest / 5))
    return [place * step for place in range(int(highest / step) + 1)]


def _nice(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, …"""
    power = 10.0 ** floor(log10(value))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value - 1e-12)
