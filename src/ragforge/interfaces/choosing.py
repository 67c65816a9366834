"""Who may choose which model: what is paid for is chosen in the settings."""

from __future__ import annotations

from ragforge.build import OFFLINE, PROFILES
from ragforge.domain.access import Role
from ragforge.errors import NotAllowed
from ragforge.settings import Model


def may_choose(role: Role, settings: Model, model: str) -> bool:
    """Only an admin may name another model than the settings do."""
    named = {"", OFFLINE, *PROFILES, settings.name, *(getattr(settings, profile) for profile in PROFILES)}
    return model in named or role is Role.ADMIN


def check_model(role: Role, settings: Model, model: str) -> None:
    """Raises `NotAllowed` for who may not."""
    if not may_choose(role, settings, model):
        raise NotAllowed(
            f"a key of the role {role} may not choose the model {model[:200]!r}",
            hint=f"use a profile ({', '.join(PROFILES)}), {OFFLINE}, or leave it out",
        )
