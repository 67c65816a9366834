"""Ragforge: one method for each thing a user can do. No logic of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel
from ragforge.domain.library import (
    AddReport,
    Chunk,
    Document,
    FileResult,
    Finding,
    Job,
    Labels,
    Progress,
    Project,
    Removal,
)
from ragforge.domain.strategy import Strategy

if TYPE_CHECKING:
    from ragforge.settings import Settings
