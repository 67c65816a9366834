"""What all pages of a process share: the workspace here or a server elsewhere, and the questions on their way.

Who looks at a page is resolved anew for every run of it: without keys the owner, else whoever brings a key. Pages reach
the engine only through a `Visitor`, for one action at a time, as every other surface does.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

import streamlit as st

from ragforge.domain.access import Action, Principal
from ragforge.domain.models import LanguageModels
from ragforge.errors import NotAllowed, Unauthenticated
from ragforge.interfaces.choosing import may_choose
from ragforge.interfaces.ui.asking import Answers
from ragforge.operate.access import allowed

if TYPE_CHECKING:
    from ragforge.app import Ragforge
    from ragforge.client import RemoteForge
    from ragforge.settings import Settings

Forge: TypeAlias = "Ragforge | RemoteForge"

log = logging.getLogger("ragforge.ui")

_MODELS_SECONDS = 15.0
"""How long a list of models is believed: to look for them takes a moment."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks at the page, and what they may do."""

    id: str
    name: str
    _reach: Callable[[Action], Forge]
    _may: Callable[[Action], bool]
    may_choose: Callable[[str], bool]
    """Whether this model may be chosen, by its name."""

    def forge(self, action: Action) -> Forge:
        """The engine, for this; raises `NotAllowed`."""
        return self._reach(action)

    def may(self, action: Action) -> bool:
        """Whether it is worth offering. Of a server elsewhere only it knows, and says so when it is asked."""
        return self._may(action)

    def check_model(self, model: str) -> str:
        """The same model; raises `NotAllowed` if it may not be chosen."""
        if not self.may_choose(model):
            raise NotAllowed(f"your key may not choose the model {model[:200]}", hint="choose another under Control")
        return model


class Engine(Protocol):
    """One for each process."""

    answers: Answers
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


class Here:
    """A workspace of this machine. Files and long work are done by threads of this process."""

    is_remote = False

    def __init__(self, forge: Ragforge) -> None:
        self.answers = Answers()
        self.where = str(forge.workspace)
        self.largest_file = forge.settings.limits.file_bytes
        self.stages = frozenset(re.findall(r"[\w-]+", forge.settings.ask.stages))
        self.strictness = forge.settings.ask.strictness
        self._forge = forge
        self._access = forge.access()
        self._worker = forge.worker()
        self._models = _Recent()

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
        principal: Principal = self._access.principal(key)

        def reach(action: Action) -> Forge:
            return self._forge.acting(allowed(principal, action))

        name = principal.key.name if principal.key else ""
        choose = partial(may_choose, principal.role, self._forge.settings.model)
        return Visitor(principal.id, name, reach, principal.may, choose)

    def models(self, visitor: Visitor) -> LanguageModels:
        return self._models.of("", visitor.forge(Action.ASK).language_models)


class There:
    """A server elsewhere. Each visitor calls it with a key: the one that was given at the start, or their own."""

    is_remote = True

    def __init__(self, url: str, key: str, settings: Settings) -> None:
        """The settings are those of this machine: what a server elsewhere does is up to its own."""
        self.answers = Answers()
        self.where = url
        self.largest_file = settings.limits.file_bytes
        self.stages = frozenset(re.findall(r"[\w-]+", settings.ask.stages))
        self.strictness = settings.ask.strictness
        self._key = key
        self._forges: dict[str, RemoteForge] = {}
        self._lock = threading.Lock()
        self._models = _Recent()

    def visitor(self, key: str) -> Visitor:
        key = key or self._key
        forge = self._forge(key)
        id = sha256(key.encode()).hexdigest()[:16]
        return Visitor(id, "", lambda action: forge, lambda action: True, lambda model: True)

    def check(self, key: str) -> None:
        """Whether the server takes this key."""
        self._forge(key or self._key).projects()

    def stop(self) -> None:
        self.answers.stop_all()
        with self._lock:
            for forge in self._forges.values():
                forge.close()
            self._forges.clear()

    def models(self, visitor: Visitor) -> LanguageModels:
        return self._models.of(visitor.id, visitor.forge(Action.ASK).language_models)

    def _forge(self, key: str) -> RemoteForge:
        from ragforge.client import RemoteForge

        with self._lock:
            if key not in self._forges:
                self._forges[key] = RemoteForge(self.where, key=key)
            return self._forges[key]


class _Recent:
    """The models that were found a moment ago."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[float, LanguageModels]] = {}

    def of(self, visitor: str, look: Callable[[], LanguageModels]) -> LanguageModels:
        at, found = self._found.get(visitor, (0.0, None))
        if found is None or time.monotonic() - at > _MODELS_SECONDS:
            found = look()
            self._found[visitor] = time.monotonic(), found
        return found


_given: list[Engine] = []


def use(chosen: Engine) -> None:
    """Said once, by whoever starts the pages."""
    _given[:] = [chosen]
    engine.clear()


@st.cache_resource(show_spinner=False)
def engine() -> Engine:
    """The one of this process."""
    if not _given:
        raise NotAllowed("the pages have no workspace", hint="start them with ragforge ui")
    return _given[0]


def signed_in(key: str) -> Visitor | None:
    """Whoever brings this key; None if a key is needed and this one is none."""
    try:
        return engine().visitor(key)
    except Unauthenticated:
        return None
