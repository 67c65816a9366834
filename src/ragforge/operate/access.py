"""The resolver of principals: the only place where a `Scope` is made."""

from __future__ import annotations

from ragforge.domain.access import Clearance, Scope


def owner() -> Scope:
    """Local mode: whoever can open the workspace's folder owns all of it."""
    return Scope(principal="owner", owner="owner", projects=None, clearance=Clearance.RESTRICTED)
