"""How far long work has come: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from ragforge.domain.library import Progress
from ragforge.interfaces.cli.output import plain, say
from ragforge.interfaces.words import count, duration

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

LINE_SECONDS = 5.0
_WINDOW_SECONDS = 20.0


class Pace:
    """Speed over the last seconds, and the time left at that speed."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int, int]] = deque()

    def text(self, progress: Progress, unit: str, now: float) -> str:
        """`412/873 files · 3,410 chunks · 182/s · 12 s left`."""
        self._remember(progress, now)
        parts = []
        if progress.total:
            parts.append(f"{progress.done:,}/{progress.total:,} {unit}")
        elif progress.done:
            parts.append(count(progress.done, unit.rstrip("s"), unit))
        if made := _chunks(progress):
            parts.append(count(made, "chunk"))
        if progress.turns:
            parts.append(count(progress.turns, "turn"))
        seconds, done, chunks = self._since()
        if seconds >= 1 and chunks:
            parts.append(f"{chunks / seconds:,.0f}/s")
        if seconds >= 1 and done and progress.total:
            parts.append(f"{_rounded((progress.total - progress.done) * seconds / done)} left")
        return " · ".join(parts)

    def _remember(self, progress: Progress, now: float) -> None:
        made = _chunks(progress)
        if self._samples and (progress.done < self._samples[-1][1] or made < self._samples[-1][2]):
            self._samples.clear()  # other work began
        self._samples.append((now, progress.done, made))
        while len(self._samples) > 2 and self._samples[1][0] < now - _WINDOW_SECONDS:
            self._samples.popleft()

    def _since(self) -> tuple[float, int, int]:
        """Seconds, files and chunks between the oldest and the newest sample."""
        first, last = self._samples[0], self._samples[-1]
        return last[0] - first[0], last[1] - first[1], last[2] - first[2]


def _chunks(progress: Progress) -> int:
    """Chunks made so far; those of the batch under way count when they have their vectors."""
    return max(progress.chunks, progress.embedded)


def _rounded(seconds: float) -> str:
    return duration(seconds) if seconds >= 60 else f"{seconds:.0f} s"


class Meter(Protocol):
    """Shows progress, and messages without disturbing it."""

    def show(self, progress: Progress) -> None: ...
    def say(self, text: str) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def meter(*, quiet: bool, lines_on_stdout: bool, unit: str = "files") -> Meter:
    """The meter for this terminal. Lines that stream to the same terminal are progress enough."""
    if quiet or (lines_on_stdout and sys.stdout.isatty()):
        return Silence()
    return Bar(unit) if sys.stderr.isatty() else Lines(unit)


class Silence:
    """No progress; messages only."""

    def show(self, progress: Progress) -> None:
        pass

    def say(self, text: str) -> None:
        say(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Lines(Silence):
    """A line on stderr every few seconds."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._pace = Pace()
        self._next = time.monotonic() + LINE_SECONDS

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        text = self._pace.text(progress, self._unit, now)
        if now >= self._next:
            say(f"{plain(progress.stage)}: {text}")
            self._next = now + LINE_SECONDS


class Bar:
    """A bar on stderr; it goes away when the work is done."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._pace = Pace()
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn
        from rich.progress import Progress as RichProgress

        # stdout is for data: it must not be drawn on the bar's console
        self._bar = RichProgress(
            SpinnerColumn("line"),  # a slow model's first batch takes seconds: it shows that work goes on
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[pace]}", markup=False),
            console=Console(stderr=True, highlight=False, markup=False),
            transient=True,
            expand=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._bar.start()
        return self

    def show(self, progress: Progress) -> None:
        assert self._bar is not None
        text = self._pace.text(progress, self._unit, time.monotonic())
        # room for the ^C that the terminal echoes: on a full line it would break the bar in two
        self._bar.console.width = max(20, (os.get_terminal_size(sys.stderr.fileno()).columns or 80) - 3)
        if self._task is None:
            self._task = self._bar.add_task("", total=None, pace="")
        self._bar.update(
            self._task,
            description=f"{plain(progress.stage):<9}",
            completed=progress.done,
            total=progress.total,
            pace=text,
        )

    def say(self, text: str) -> None:
        assert self._bar is not None
        self._bar.console.print(text, soft_wrap=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._bar is not None
        self._bar.stop()
