"""The resolver of principals: the only place where a `Scope` is made.

A key is `rf_<id>_<secret>`: the id finds the row, a digest of the secret proves it. What was resolved is believed for
half a second, so that a key that is revoked stops within one.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from threading import Lock

from ragforge.domain.access import DEEDS, MAY, OWNER, AccessKey, Action, Clearance, KeyLimits, Principal, Role, Scope
from ragforge.domain.library import UPLOAD, Job, Maker
from ragforge.domain.records import Spent
from ragforge.errors import NotAllowed, NotFound, Unauthenticated, UserError
from ragforge.ports import Catalog, Clock, Unit

_BELIEVED_SECONDS = 0.5
_MOST_BELIEVED = 1_000
_KEY = re.compile(r"rf_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
_LONGEST_NAME = 100
REVOKED = "the key that asked for it was revoked"
"""Why a job is cancelled that nobody cancelled."""


def owner() -> Scope:
    """Local mode: whoever can open the workspace's folder owns all of it."""
    return Scope(principal=OWNER, owner=OWNER, projects=None, clearance=Clearance.RESTRICTED, oversees=True)


def on_behalf(maker: Maker, project: str) -> Scope:
    """The scope in which a job is done: that of who asked for it, in its project alone."""
    return Scope(maker.principal, maker.storage, frozenset({project}), maker.clearance)


def revoked(c: Unit, maker: Maker, jobs: Sequence[Job]) -> list[Job]:
    """Those that are not to be done any more for who asked.

    Uploads that were accepted before were answered for; so was all that an expired key asked for in its time.
    """
    try:
        revoked_at = None if maker.principal == OWNER else c.keys.get(owner(), maker.storage)[0].revoked_at
    except NotFound:
        return []
    return [job for job in jobs if revoked_at is not None and (job.kind != UPLOAD or job.created_at > revoked_at)]


def used_today(c: Unit, principal: str, now: datetime) -> tuple[Spent, timedelta]:
    """What somebody's questions took since midnight (UTC) in all projects, and how long this day still is."""
    midnight = _midnight(now)
    return c.log.used(owner(), principal, midnight), midnight + timedelta(days=1) - now


def require_counted(scope: Scope, before: datetime, now: datetime) -> None:
    """What was asked today stays in the log, whoever would remove it with a key: its limits are counted from it."""
    if scope.principal != OWNER and before > _midnight(now):
        raise NotAllowed(
            "what was asked today is counted against the limits of keys",
            hint=f"remove what is before {_midnight(now):%Y-%m-%d}",
        )


def _midnight(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def local() -> Principal:
    """The owner, as somebody who calls."""
    return Principal(owner(), Role.ADMIN)


def require_owner(scope: Scope) -> None:
    """For what is about the whole workspace."""
    if not scope.owns:
        raise NotAllowed("only the workspace's owner may do this", hint="use the command line of the server")


def require_clearance(scope: Scope) -> None:
    """For what is about the whole of a project, also the documents that others may not know of."""
    if not scope.sees_all:
        raise NotAllowed(
            "this needs clearance for all documents of the project",
            hint="use a key with the clearance restricted, or ask the workspace's owner",
        )


def allowed(principal: Principal, action: Action) -> Scope:
    """What the principal may reach with this action; there is no other way from a principal to a scope."""
    if not principal.may(action):
        hint = "ask the workspace's owner for a key of another role"
        if action is Action.OPERATE:
            hint = "this takes an admin's key that reaches all projects"
        raise NotAllowed(f"a key of the role {principal.role} may not {DEEDS[action]}", hint=hint)
    return principal.scope


class Access:
    """Makes keys, and tells who brings one."""

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        tick: Callable[[], float] = time.monotonic,
        ended: Callable[[Sequence[Job]], object] = lambda jobs: None,
    ) -> None:
        """`ended` is told of jobs that end because their key was revoked."""
        self._ended = ended
        self._catalog = catalog
        self._clock = clock
        self._tick = tick
        self._believed: dict[bytes, tuple[float, Principal]] = {}
        self._are_needed = False
        self._looked_for_keys = -_BELIEVED_SECONDS
        self._lock = Lock()

    def create(
        self,
        name: str,
        role: Role,
        *,
        projects: frozenset[str] | None = None,
        clearance: Clearance | None = None,
        expires_at: datetime | None = None,
        limits: KeyLimits | None = None,
    ) -> tuple[AccessKey, str]:
        """A new key and its secret, which is shown once and stored nowhere.

        Unless told otherwise an admin is cleared for everything, because what they do is done to all of a project.
        """
        now = self._clock()
        if clearance is None:
            clearance = Clearance.RESTRICTED if role is Role.ADMIN else Clearance.INTERNAL
        if not name.strip() or len(name) > _LONGEST_NAME:
            raise UserError("a key needs a name of 1 to 100 characters", hint="name who or what will use it")
        if expires_at is not None and (expires_at.tzinfo is None or expires_at <= now):
            raise UserError(
                "the key would have expired already", hint="give a moment in the future, with its time zone"
            )
        if projects is not None and not projects:
            raise UserError("a key for no project opens nothing", hint="name a project, or none to reach all")
        _require_sense(limits or KeyLimits())
        id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        key = AccessKey(id, name.strip(), role, projects, clearance, now, expires_at, limits=limits or KeyLimits())
        with self._catalog.write() as c:
            c.keys.add(owner(), key, _digest(secret))
            return c.keys.get(owner(), id)[0], f"rf_{id}_{secret}"

    def keys(self) -> list[AccessKey]:
        """All that were made, newest first; also those that work no more."""
        with self._catalog.read() as c:
            return c.keys.all(owner())

    def revoke(self, id: str) -> AccessKey:
        """From now on it opens nothing, and long work it asked for is cancelled: what waits at once, what runs soon."""
        with self._catalog.write() as c:
            key = c.keys.revoke(owner(), id)
            jobs = c.jobs.cancel_all(owner(), f"key:{id}", REVOKED)
        self._forget()
        self._ended([job for job in jobs if job.ended])
        return key

    def are_there_keys(self) -> bool:
        """Once there was one, everybody needs one, also when it is revoked."""
        return bool(self.keys())

    def principal(self, presented: str) -> Principal:
        """Who calls with this key, or with none. While there are no keys it is the owner, whatever is presented."""
        return self.resolve(presented) if self._needed() else local()

    def _needed(self) -> bool:
        now = self._tick()
        if not self._are_needed and now - self._looked_for_keys >= _BELIEVED_SECONDS:
            self._are_needed = self.are_there_keys()
            self._looked_for_keys = now
        return self._are_needed

    def resolve(self, presented: str) -> Principal:
        """Who brings this key. Whatever is wrong with it, the answer is the same."""
        if not presented:
            raise Unauthenticated("a key is needed", hint="send Authorization: Bearer rf_…, or X-API-Key: rf_…")
        whole = sha256(presented.encode("utf-8", "replace")).digest()
        now = self._tick()
        with self._lock:
            seen, principal = self._believed.get(whole, (0.0, None))
        if principal is None or now - seen > _BELIEVED_SECONDS:
            principal = self._looked_up(presented)
            with self._lock:
                if len(self._believed) >= _MOST_BELIEVED:
                    self._believed.clear()
                self._believed[whole] = (now, principal)
        if principal.key is not None and not principal.key.works_at(self._clock()):
            raise refused()
        return principal

    def still(self, principal: Principal) -> bool:
        """Whether what was resolved still holds: asked again and again while a stream is open.

        What does not is believed no longer, so that whoever was told so is not let in again.
        """
        holds = principal.key is None or self._holds(principal.key)
        if not holds:
            self._forget()
        return holds

    def _holds(self, known: AccessKey) -> bool:
        try:
            with self._catalog.read() as c:
                key, _ = c.keys.get(owner(), known.id)
        except NotFound:
            return False
        return key.works_at(self._clock()) and replace(key, name="") == replace(known, name="")

    def _forget(self) -> None:
        with self._lock:
            self._believed.clear()

    def _looked_up(self, presented: str) -> Principal:
        match = _KEY.fullmatch(presented)
        if match is None:
            raise refused()
        try:
            with self._catalog.read() as c:
                key, digest = c.keys.get(owner(), match[1])
        except NotFound:
            raise refused() from None
        if not hmac.compare_digest(digest, _digest(match[2])) or not key.works_at(self._clock()):
            raise refused()
        oversees = Action.MANAGE in MAY[key.role]
        vouches = oversees or Action.LEARN in MAY[key.role]
        scope = Scope(f"key:{key.id}", key.id, key.projects, key.clearance, oversees, vouches)
        return Principal(scope, key.role, key)

    def used_today(self, principal: Principal) -> tuple[Spent, timedelta]:
        with self._catalog.read() as c:
            return used_today(c, principal.id, self._clock())


def _require_sense(limits: KeyLimits) -> None:
    cost = limits.cost_per_day
    numbers = (limits.requests_per_minute, limits.concurrent, limits.tokens_per_day)
    if any(number < 0 for number in numbers) or (cost is not None and not (cost.is_finite() and cost >= 0)):
        raise UserError("a limit is a number from 0 on", hint="leave it out to have none")


def _digest(secret: str) -> bytes:
    """256 random bits need no slow hash: nobody can try them all."""
    return sha256(secret.encode()).digest()


def refused() -> Unauthenticated:
    """The one answer to every key that does not work."""
    return Unauthenticated("no such key, or it works no more", hint="ask whoever runs the server for a new one")
