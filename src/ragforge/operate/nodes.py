"""Several machines on one catalog: who this one is, what others do, and indexes that keep up with all of them.

heard (or looked, every few seconds) -> the bell rings for waiting work -> what was made here of projects that others
removed or renamed goes -> the indexes of changed projects follow
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ragforge.domain.access import Scope
from ragforge.domain.library import News, Topic
from ragforge.durable import sync
from ragforge.errors import NotFound, RagforgeError, StoreError, cannot_write
from ragforge.operate.jobs import Bell
from ragforge.ports import Catalog, Listening

_FILE = "node"
_ID = re.compile(r"[0-9a-f]{12}")
_LISTEN_SECONDS = 5.0
"""How long it listens before it looks for itself: news may be missed, what is committed is not."""
_SEEN_SECONDS = 20.0
_REST_SECONDS = 1.0
_STOP_SECONDS = 5.0

log = logging.getLogger("ragforge.node")


def identity(workspace: Path) -> str:
    """The word by which this folder is known, kept in it. A folder that is copied to another machine must lose it."""
    path = workspace / _FILE
    try:
        if _ID.fullmatch(known := path.read_text(encoding="utf-8").strip()):
            return known
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as problem:
        raise cannot_write(path, OSError(0, "it cannot be read")) from problem
    own = path.with_name(f"{_FILE}.{secrets.token_hex(4)}")
    try:
        own.write_text(secrets.token_hex(6), encoding="utf-8")
        sync(own)
        with suppress(FileExistsError):  # another process was quicker: its word counts
            os.link(own, path)
        sync(workspace)
    except OSError as problem:
        raise cannot_write(path, problem) from problem
    finally:
        own.unlink(missing_ok=True)
    return path.read_text(encoding="utf-8").strip()


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a machine is with its own indexes."""

    projects: int
    followed: int
    began: bool = False
    """All were there once: since then it answers with what it has, and the catalog with the rest."""

    @property
    def is_current(self) -> bool:
        return self.followed >= self.projects

    @property
    def ready(self) -> bool:
        return self.began or self.is_current


class Neighbour:
    """A thread that keeps this process in step with others on the catalog."""

    def __init__(
        self,
        catalog: Catalog,
        scope: Scope,
        bell: Bell,
        kinds: Collection[str],
        role: str,
        node: str,
        version: str,
        follow: Callable[[str], bool],
        settle: Callable[[Mapping[str, str], Mapping[str, str]], object],
    ) -> None:
        """`follow` brings the indexes of one project up to date; False if it is to be called again a little later.

        `settle` clears up after projects that are gone or renamed: it gets all slugs by id, as they were and are.
        """
        self._catalog = catalog
        self._scope = scope
        self._bell = bell
        self._kinds = kinds
        self._role = role
        self._node = node
        self._version = version
        self._follow = follow
        self._settle = settle
        self._slugs: Mapping[str, str] | None = None
        self._followed: dict[str, int] = {}
        """How far each project's log had come when its indexes followed it."""
        self._standing = Standing(1, 0)
        self._stopping = threading.Event()
        self._seen = 0.0
        self._trouble = ""
        self._thread = threading.Thread(target=self._keep, name="ragforge-neighbour", daemon=True)

    @property
    def standing(self) -> Standing:
        """Ready once the indexes of all projects there were have followed."""
        return self._standing

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(_STOP_SECONDS)

    def _keep(self) -> None:
        listening: Listening | None = None
        while not self._stopping.is_set():
            try:
                if listening is None:
                    listening = self._catalog.listen()
                    self._ring([News(Topic.JOB, kind) for kind in self._kinds])  # what was told while nobody listened
                self._be_seen()
                self._say(self._catch_up())
                self._ring(self._heard(listening))
            except RagforgeError as problem:
                self._say(problem.message)
                if listening is not None:
                    listening.close()
                    listening = None
                self._stopping.wait(_REST_SECONDS)
            except Exception:
                log.exception("a thread that keeps the indexes could not go on just now")
                self._stopping.wait(_LISTEN_SECONDS)
        if listening is not None:
            listening.close()

    def _say(self, trouble: str) -> None:
        """Once when it begins, and once when it is over: a server may be away for hours."""
        if trouble and trouble != self._trouble:
            log.warning("%s; it is tried again", trouble)
        elif self._trouble and not trouble:
            log.info("all is well again")
        self._trouble = trouble

    def _heard(self, listening: Listening | None) -> list[News]:
        """In short steps, so that it can be stopped."""
        deadline = time.monotonic() + _LISTEN_SECONDS
        while not self._stopping.is_set() and (left := deadline - time.monotonic()) > 0:
            if listening is None:
                self._stopping.wait(left)
            elif news := listening.wait(min(left, _REST_SECONDS)):
                return news
        return []

    def _ring(self, news: Collection[News]) -> None:
        for each in news:
            if each.topic is Topic.JOB:
                self._bell.ring(each.of)
        self._bell.end(each.of for each in news if each.topic is Topic.ENDED)

    def _be_seen(self) -> None:
        if time.monotonic() - self._seen < _SEEN_SECONDS and self._seen:
            return
        with self._catalog.write() as c:
            c.nodes.seen(self._scope, self._node, socket.gethostname(), self._role, self._version)
            c.nodes.forget(self._scope)
        self._seen = time.monotonic()

    def _catch_up(self) -> str:
        """Follow what is new in every project. One that fails is told, and does not keep the others from it."""
        with self._catalog.read() as c:
            newest = c.changes.newest(self._scope)
            slugs = {project.id: project.slug for project in c.projects.all(self._scope)}
        trouble = self._settled(slugs)
        stale = [project for project, seq in newest.items() if self._followed.get(project) != seq]
        self._stand(len(newest), len(stale))
        for left, project in zip(reversed(range(len(stale))), stale, strict=True):
            if self._stopping.is_set():
                return ""
            try:
                if self._follow(project):
                    self._followed[project] = newest[project]
            except NotFound:  # removed meanwhile
                pass
            except StoreError as problem:  # a search does without that index, and says so
                trouble = problem.message
            self._stand(len(newest), left)
        for project in set(self._followed).difference(newest):
            del self._followed[project]
        return trouble

    def _settled(self, slugs: Mapping[str, str]) -> str:
        """Why what was made of projects that are gone or renamed could not be cleared yet; empty if it was."""
        if slugs != self._slugs:
            try:
                self._settle(self._slugs or {}, slugs)
            except StoreError as problem:
                return problem.message
            except OSError as problem:
                return f"of projects that are gone or renamed something is still here: {problem}"
            self._slugs = slugs
        return ""

    def _stand(self, projects: int, left: int) -> None:
        self._standing = Standing(projects, projects - left, self._standing.ready)
