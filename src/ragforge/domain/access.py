"""Who asks, and what they may see and do. A `Scope` is made by the resolver of principals and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import IntEnum, StrEnum

OWNER = "owner"
"""The principal who may open the workspace's folder; all others are called `key:` and an id."""


class Clearance(IntEnum):
    """How confidential a document is, and how far a caller may see."""

    PUBLIC = 0
    INTERNAL = 1
    CONFIDENTIAL = 2
    RESTRICTED = 3


@dataclass(frozen=True, slots=True)
class Scope:
    """What a principal may reach. Every function of the catalog takes one, so no query is unscoped."""

    principal: str
    owner: str
    """The opaque id under which this principal's uploads are stored."""
    projects: frozenset[str] | None
    """Project ids; None reaches all."""
    clearance: Clearance
    oversees: bool = False
    """Whether it also reaches what others asked and started, and what that took."""
    vouches: bool = True
    """Whether its word that a lesson works is taken. An agent's is not: what it tells waits until a person approves."""

    @property
    def owns(self) -> bool:
        """Whether it is the owner's, who makes keys for others."""
        return self.principal == OWNER and self.projects is None

    @property
    def sees_all(self) -> bool:
        """Whether no document can be above it."""
        return self.clearance == max(Clearance)

    def reaches(self, project_id: str) -> bool:
        return self.projects is None or project_id in self.projects


class Role(StrEnum):
    """What a key is for."""

    READER = "reader"
    EDITOR = "editor"
    ADMIN = "admin"
    ORCHESTRATOR = "orchestrator"
    AGENT = "agent"


class Action(StrEnum):
    """What somebody may be allowed to do. Every route and every tool asks for one."""

    READ = "read"
    """List and read projects, files, documents that were made, evaluations, jobs."""
    ASK = "ask"
    """Search, explain, preview prompts, ask, judge the answers, keep conversations of one's own."""
    WRITE = "write"
    """Add, label, switch and remove files; make documents; evaluate."""
    MANAGE = "manage"
    """Make, rename and remove projects; write their rules; reindex; review lessons; read everybody's log and costs."""
    CAPTURE = "capture"
    """Tell lessons."""
    CHECKPOINT = "checkpoint"
    """Have lessons embedded that wait for it."""
    LEARN = "learn"
    """Ask for lessons, take up what was told, say what came of them."""
    OPERATE = "operate"
    """See how the whole server does."""


DEEDS: dict[Action, str] = {
    Action.READ: "read files",
    Action.ASK: "ask",
    Action.WRITE: "add, change or remove files, make documents or evaluate",
    Action.MANAGE: "make or change projects, write their rules, reindex them or review lessons",
    Action.CAPTURE: "tell lessons",
    Action.CHECKPOINT: "have lessons embedded",
    Action.LEARN: "ask for lessons",
    Action.OPERATE: "read the numbers of the whole server",
}
"""Each action in the words of who is refused it."""

_READS = frozenset({Action.READ, Action.ASK})
_WRITES = _READS | {Action.WRITE}
MAY: dict[Role, frozenset[Action]] = {
    Role.READER: _READS,
    Role.EDITOR: _WRITES,
    Role.ADMIN: _WRITES | {Action.MANAGE, Action.CHECKPOINT, Action.OPERATE},
    Role.ORCHESTRATOR: _READS | {Action.CAPTURE, Action.CHECKPOINT, Action.LEARN},
    Role.AGENT: _READS | {Action.CAPTURE},
}
"""The policy: which role may do what. What it may do it to, the scope says."""


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """How much a key may use; 0 or None: as much as the server gives."""

    requests_per_minute: int = 0
    concurrent: int = 0
    tokens_per_day: int = 0
    cost_per_day: Decimal | None = None
    """In US dollars."""

    @property
    def bound_a_day(self) -> bool:
        return bool(self.tokens_per_day) or self.cost_per_day is not None


@dataclass(frozen=True, slots=True)
class AccessKey:
    """A key as it is stored: its secret is not, only a digest of it."""

    id: str
    name: str
    role: Role
    projects: frozenset[str] | None
    """Ids; None reaches all, also those that are made later."""
    clearance: Clearance
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    limits: KeyLimits = field(default_factory=KeyLimits)

    def works_at(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls: a key, or whoever owns the workspace."""

    scope: Scope
    role: Role
    key: AccessKey | None = None
    """None: the owner, who may do everything."""

    @property
    def id(self) -> str:
        return self.scope.principal

    def may(self, action: Action) -> bool:
        """What is about the whole server is for those who reach all of it."""
        if action is Action.OPERATE and self.scope.projects is not None:
            return False
        return self.key is None or action in MAY[self.role]
