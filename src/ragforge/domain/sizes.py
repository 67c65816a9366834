"""Sizes for people."""

from __future__ import annotations

KB, MB, GB = 1_000, 1_000_000, 1_000_000_000


def size_text(count: float) -> str:
    """Bytes in decimal units: `1.2 MB`."""
    for unit, word in ((GB, "GB"), (MB, "MB"), (KB, "KB")):
        if count >= unit:
            number = count / unit
            return f"{number:.1f} {word}" if number < 10 and round(number, 1) % 1 else f"{number:.0f} {word}"
    return f"{count:.0f} B"


def over_limit_text(size: int, limit: int) -> str:
    """`3.4 KB is over the limit of 1 KB`; exact where the difference is small."""
    shown, most = size_text(size), size_text(limit)
    if shown == most:
        shown, most = f"{size:,} bytes", f"{limit:,}"
    return f"{shown} is over the limit of {most}"
