"""What the parts of `bench.scale` measure with: a durable Postgres, the CPU of trees of processes, percentiles."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import Any, Self

from bench.search_peers.common import reference
from ragforge.testing.postgres import TemporaryPostgres

POSTGRES = {"shared_buffers": "1GB", "max_wal_size": "8GB", "max_connections": "200"}
"""What differs from a Postgres that was just installed. It syncs every commit to the disk, as that does."""
_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_SECONDS = 0.05


# -- processor time


@dataclass(frozen=True, slots=True)
class Stat:
    """What the system tells of a process."""

    parent: int
    seconds: float
    """Of processors, its own and that of what it started and saw the end of."""


def cpu_of_trees(pids: Iterable[int], processes: Mapping[int, Stat] | None = None) -> float:
    """CPU seconds of processes with all that they started, whether it still runs or not."""
    known = running() if processes is None else processes
    children: dict[int, list[int]] = {}
    for pid, stat in known.items():
        children.setdefault(stat.parent, []).append(pid)
    total, waiting = 0.0, [pid for pid in pids if pid in known]
    while waiting:
        pid = waiting.pop()
        total += known[pid].seconds
        waiting += children.get(pid, ())
    return total


def running() -> dict[int, Stat]:
    """Every process there is."""
    found: dict[int, Stat] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                found[int(folder.name)] = stat_of((folder / "stat").read_text())
            except OSError:  # it has just ended
                continue
    return found


def stat_of(line: str) -> Stat:
    """A line of `/proc/<pid>/stat`; a process's name may hold anything, also brackets and spaces."""
    fields = line.rpartition(")")[2].split()
    return Stat(int(fields[1]), sum(map(int, fields[11:15])) / _TICKS)


class Meter:
    """Seconds on the clock and of processors since it was made: of ragforge's processes, and of Postgres apart."""

    def __init__(self, own: Callable[[], float] = time.process_time, server: Server | None = None) -> None:
        self._own, self._server = own, server
        self._began, self._own_began = time.monotonic(), own()
        self._server_began = server.cpu_seconds() if server else None

    def read(self) -> dict[str, float | None]:
        wall, own = time.monotonic() - self._began, self._own() - self._own_began
        of_server = None
        if self._server is not None and self._server_began is not None:
            of_server = (self._server.cpu_seconds() or 0.0) - self._server_began
        return {
            "wall_s": round(wall, 4),
            "cpu_s": round(own, 4),
            "postgres_cpu_s": None if of_server is None else round(of_server, 2),
        }


def added(parts: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """What several meters read, together."""
    totals: dict[str, float | None] = {}
    for name in ("wall_s", "cpu_s", "postgres_cpu_s"):
        values = [value for part in parts if (value := part[name]) is not None]
        totals[name] = round(sum(values), 4) if values else None
    return totals


# -- Postgres


class Server:
    """A Postgres that loses nothing when the power fails. One that `DATABASE_URL` names is taken as it is."""

    def __init__(self) -> None:
        self._temporary = TemporaryPostgres()
        self._postmaster: int | None = None
        first = self.create()
        if not os.environ.get("DATABASE_URL"):
            self._set_up(first)
        self._postmaster = _postmaster(first)
        self.drop(first)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._temporary.close()

    def create(self, template: str | None = None) -> str:
        return self._temporary.as_superuser(self._temporary.create(template))

    def drop(self, url: str) -> None:
        self._temporary.drop(url)

    def cpu_seconds(self) -> float | None:
        """Of all its processes so far; None if it is on another machine."""
        return None if self._postmaster is None else cpu_of_trees([self._postmaster])

    def database_bytes(self, url: str) -> int:
        [(size,)] = ask(url, "SELECT pg_database_size(current_database())")
        return int(size)

    def _set_up(self, url: str) -> None:
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM RESET fsync")
            for name, value in POSTGRES.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
        self._temporary.stop()
        self._temporary.start()
        [(fsync,)] = ask(url, "SHOW fsync")
        assert fsync == "on", "figures of a Postgres that may lose commits would not count"


def ask(url: str, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement.encode(), values).fetchall()


def _postmaster(url: str) -> int | None:
    """The process above all others of the server, if it runs here."""
    import psycopg

    with psycopg.connect(url) as connection:
        backend = Path("/proc") / str(connection.info.backend_pid)
        try:
            if "postgres" not in (backend / "comm").read_text():
                return None
            return stat_of((backend / "stat").read_text()).parent
        except OSError:
            return None


class Waits(threading.Thread):
    """Looks again and again what the sessions of a database wait for, while they are at work."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._ended = threading.Event()
        self.seen: Counter[str] = Counter()
        self.blocked: Counter[str] = Counter()
        """Statements that were found to wait for a lock, by how they begin."""
        self.looks = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        import psycopg

        look = (
            "SELECT coalesce(wait_event_type || ' ' || wait_event, 'running'), left(query, 48) FROM pg_stat_activity"
            " WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()"
        )
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._ended.wait(_LOOK_SECONDS):
                self.looks += 1
                for event, statement in connection.execute(look):
                    self.seen[event] += 1
                    self.blocked[" ".join(statement.split())] += event.startswith("Lock ")

    def shares(self, seen: Counter[str], most: int = 5) -> dict[str, float]:
        """How many sessions, on average, were found so; the commonest ones."""
        return {what: round(count / max(1, self.looks), 3) for what, count in seen.most_common(most) if count}


# -- a process that tells


def told_by(command: Sequence[str], server: Server | None) -> dict[str, Any]:
    """What another process measures of itself, with the CPU of Postgres meanwhile.

    It says `{"begins": …}` before each piece of work and waits for a line; after it, `{"did": name, "count": …}` with
    its figures. Whatever else it says is taken as it is.
    """
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin and process.stdout
    found: dict[str, Any] = {}
    meter = Meter(server=server)
    for line in process.stdout:
        told = json.loads(line)
        if "begins" in told:
            meter = Meter(server=server)
            print("go", file=process.stdin, flush=True)
        elif "did" in told:
            name, spent = told.pop("did"), meter.read()
            found[name] = {**told, "postgres_cpu_ms": per(spent["postgres_cpu_s"], told["count"], 1e3)}
        else:
            found |= told
    if process.wait() != 0:
        raise SystemExit(f"{' '.join(command[:4])} failed")
    return found


# -- figures


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all lies below; of no values, NaN."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def spread(values: Sequence[float], name: str) -> dict[str, float]:
    return {
        name: round(fmean(values), 2),
        f"{name}_p50": round(percentile(values, 0.5), 2),
        f"{name}_p95": round(percentile(values, 0.95), 2),
    }


def per(total: float | None, count: int, scale: float = 1.0, digits: int = 3) -> float | None:
    """A total by its count, in other units."""
    return None if total is None or not count else round(total / count * scale, digits)


def conditions() -> dict[str, Any]:
    """How busy and how fast the machine is just now."""
    return {"load": round(os.getloadavg()[0], 2), "cores": os.cpu_count(), "reference": reference()}


def most_memory(pids: Iterable[int]) -> int:
    """Bytes that the largest of these processes had in memory at most."""
    tops = (Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0] for pid in pids)
    return max(int(top) * 1024 for top in tops)


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
