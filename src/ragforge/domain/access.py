"""Who asks, and what they may see. A `Scope` is made by the resolver of principals and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


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

    def reaches(self, project_id: str) -> bool:
        return self.projects is None or project_id in self.projects
