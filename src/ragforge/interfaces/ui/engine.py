"""What all pages of a process share: the workspace here or a server elsewhere, and the questions on their way.

Who looks at a page is resolved anew for everything it does: without keys the owner, else whoever brings a key. Pages
reach the engine only through a `Visitor`, for one action at a time, as every other surface does.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

import streamlit as st

from ragforge.domain.access import Action
from ragforge.domain.models import LanguageModels
from ragforge.errors import NotAllowed, RagforgeError, Unauthenticated
from ragforge.interfaces.choosing import may_choose
from ragforge.interfaces.ui.asking import Answers
from ragforge.operate.access import allowed
from ragforge.operate.rates import Rates

if TYPE_CHECKING:
    from ragforge.app import Ragforge
    from ragforge.client import RemoteForge
    from ragforge.settings import Settings

Forge: TypeAlias = "Ragforge | RemoteForge"

log = logging.getLogger("ragforge.ui")

_MODELS_SECONDS = 15.0
"""How long a list of models is believed: to look for them takes a moment."""
_CLIENTS = 100
"""Keys of visitors that a server elsewhere took, and whose connections are held."""
_SESSIONS = 10_000
"""Tabs that may bring files, at most; the oldest must be looked at again."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks at the page, and what they may do. Each is asked anew, so a revoked key is one at once."""

    id: str
    name: str
    forge: Callable[[Action], Forge]
    """The engine, for this; raises `NotAllowed`."""
    may: Callable[[Action], bool]
    """Whether it is worth offering. Of a server elsewhere only it knows, and says so when it is asked."""
    may_choose: Callable[[str], bool]
    """Whether this model may be chosen, by its name."""
    spend: Callable[[], int]
    """Count one question. How many may be asked at once, 0: as many as there is room for; raises `OverLimit`."""

    def may_go_on(self) -> bool:
        """Whether the key still works."""
        try:
            return self.may(Action.ASK)
        except RagforgeError:
            return False

    def check_model(self, model: str) -> None:
        """Raises `NotAllowed` for one that may not be chosen."""
        if not self.may_choose(model):
            raise NotAllowed(f"your key may not choose the model {model[:200]}", hint="choose another under Control")


class Engine(Protocol):
    """One for each process."""

    answers: Answers
    tabs: Tabs
    where: str
    """The workspace's folder, or the server's address."""
    is_remote: bool
    largest_file: int
    stages: frozenset[str]
    strictness: float
    """How questions are answered unless somebody chooses otherwise, as far as that is known here."""

    def visitor(self, key: str) -> Visitor:
        """Whoever brings this key, or none; raises `Unauthenticated`."""
        ...

    def models(self, visitor: Visitor) -> LanguageModels:
        """The language models at hand, as of a moment ago."""
        ...


class Tabs:
    """Sessions of browsers that may bring files: nobody else's bytes are taken."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def admit(self, session: str) -> None:
        with self._lock:
            self._known[session] = None
            self._known.move_to_end(session)
            while len(self._known) > _SESSIONS:
                self._known.popitem(last=False)

    def __contains__(self, session: str) -> bool:
        return session in self._known


class Here:
    """A workspace of this machine. Files and long work are done by threads of this process."""

    is_remote = False

    def __init__(self, forge: Ragforge) -> None:
        self.answers, self.tabs = Answers(), Tabs()
        self.where = str(forge.workspace)
        self.largest_file = forge.settings.limits.file_bytes
        self.stages, self.strictness = _usual(forge.settings)
        self._forge = forge
        self._access = forge.access()
        self._worker = forge.worker()
        self._models = _Recent()
        self._rates = Rates()

    def __enter__(self) -> Self:
        self._worker.start()
        log.info("opened")
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        self.answers.stop_all()
        self._worker.stop()

    def visitor(self, key: str) -> Visitor:
        resolve, settings = self._access.principal, self._forge.settings.model
        principal = resolve(key)

        def spend() -> int:
            known = resolve(key).key
            if known is None:
                return 0
            self._rates.spend(principal.id, known.limits.requests_per_minute)
            return known.limits.concurrent

        return Visitor(
            principal.id,
            principal.key.name if principal.key else "",
            forge=lambda action: self._forge.acting(allowed(resolve(key), action)),
            may=lambda action: resolve(key).may(action),
            may_choose=lambda model: may_choose(resolve(key).role, settings, model),
            spend=spend,
        )

    def models(self, visitor: Visitor) -> LanguageModels:
        return self._models.of("", visitor.forge(Action.ASK).language_models)


class There:
    """A server elsewhere. Each visitor calls it with a key: the one that was given at the start, or their own."""

    is_remote = True

    def __init__(self, url: str, key: str, settings: Settings) -> None:
        """The settings are those of this machine: what a server elsewhere does is up to its own."""
        self.answers, self.tabs = Answers(), Tabs()
        self.where = url
        self.largest_file = settings.limits.file_bytes
        self.stages, self.strictness = _usual(settings)
        self._key = key
        self._clients: OrderedDict[str, RemoteForge] = OrderedDict()
        self._lock = threading.Lock()
        self._models = _Recent()

    def visitor(self, key: str) -> Visitor:
        key = key or self._key
        client = self._client(key)
        return Visitor(
            sha256(key.encode()).hexdigest()[:16],
            "",
            forge=lambda action: client,
            may=lambda action: True,
            may_choose=lambda model: True,
            spend=lambda: 0,
        )

    def stop(self) -> None:
        self.answers.stop_all()
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def models(self, visitor: Visitor) -> LanguageModels:
        return self._models.of(visitor.id, visitor.forge(Action.ASK).language_models)

    def _client(self, key: str) -> RemoteForge:
        """One for each key that the server takes."""
        from ragforge.client import RemoteForge

        with self._lock:
            if key in self._clients:
                self._clients.move_to_end(key)
                return self._clients[key]
        client = RemoteForge(self.where, key=key)
        try:
            client.projects()
        except BaseException:
            client.close()
            raise
        with self._lock:
            kept = self._clients.setdefault(key, client)
            while len(self._clients) > _CLIENTS:
                self._clients.popitem(last=False)
        return kept


def _usual(settings: Settings) -> tuple[frozenset[str], float]:
    return frozenset(re.findall(r"[\w-]+", settings.ask.stages)), settings.ask.strictness


def is_open(url: str) -> bool:
    """Whether a server lets everybody in who reaches it."""
    from ragforge.client import RemoteForge

    with RemoteForge(url) as stranger:
        try:
            stranger.projects()
        except Unauthenticated:
            return False
    return True


class _Recent:
    """The models that were found a moment ago, for the visitors of the last minutes."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, tuple[float, LanguageModels]] = OrderedDict()

    def of(self, visitor: str, look: Callable[[], LanguageModels]) -> LanguageModels:
        at, found = self._found.get(visitor, (0.0, None))
        if found is None or time.monotonic() - at > _MODELS_SECONDS:
            found = look()
            self._found[visitor] = time.monotonic(), found
            while len(self._found) > _CLIENTS:
                self._found.popitem(last=False)
        return found


_given: list[Engine] = []


def use(chosen: Engine) -> None:
    """Said once, by whoever starts the pages."""
    _given[:] = [chosen]
    engine.clear()


@st.cache_resource(show_spinner=False)
def engine() -> Engine:
    """The one of this process, whichever tab asks."""
    if not _given:
        raise NotAllowed("the pages have no workspace", hint="start them with ragforge ui")
    return _given[0]
