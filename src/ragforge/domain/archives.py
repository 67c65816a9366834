"""Backups and exports: what went into the file, what came out of it, and what was removed for good meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from ragforge.domain.documents import Parsed


class Kind(StrEnum):
    """What can be removed for good."""

    DOCUMENT = "document"
    PROJECT = "project"
    CONVERSATION = "conversation"
    TURN = "turn"
    ARTIFACT = "artifact"
    LESSON = "lesson"
    QUESTION = "question"
    """Of the query log."""
    UPLOAD = "upload"
    """That waited to be taken in: it was cancelled, or the document that came of it was removed."""
    KEY = "key"
    """It is still known, and opens nothing."""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """That something was removed; nothing of what it said."""

    number: int
    """Grows with each removal of a workspace."""
    kind: Kind
    id: str
    sha256: str
    """Of a document's bytes; empty for all else."""
    removed_at: datetime


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table as a backup holds it: its columns and, of those, the ones whose bytes are written in base64."""

    name: str
    columns: tuple[str, ...]
    binary: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """What a document's export needs beside the document: how its bytes were read, and what came of it."""

    blob: str
    parser: str
    name: str
    """The name it was read under."""
    parsed: Parsed


@dataclass(frozen=True, slots=True)
class BackupReport:
    """A backup that was made."""

    file: Path
    size: int
    made_at: datetime
    """The moment whose state it holds."""
    projects: int
    documents: int
    files: int
    """Original files in it."""
    uploads: int = 0
    """Acknowledged, but not taken in yet: a worker does it where it is restored."""
    removed: int = 0
    """Removed while it was made: a restore leaves them out."""
    missing: tuple[str, ...] = ()
    """Files whose original bytes were replaced when they were to be copied; their older text is in it."""
    damaged: tuple[str, ...] = ()
    """Files whose stored bytes are lost, or not those that were added; their text is in it."""
    missing_uploads: tuple[str, ...] = ()
    """Uploads that were taken in and replaced, or given up, before they could be copied."""
    left_out: tuple[str, ...] = ()
    """Lines of the settings that looked like secrets."""


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """A workspace that came out of a backup."""

    workspace: Path
    made_at: datetime
    projects: int
    documents: int
    files: int
    uploads: int = 0
    """That wait for a worker."""
    removed: int = 0
    """In the backup, but removed since: they were left out."""
    missing: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    missing_uploads: tuple[str, ...] = ()
    keys: int = 0
    """Access keys that came with it and work."""
    before: Path | None = None
    """Where the workspace that was replaced is now."""
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportReport:
    """A project that was written to a file."""

    file: Path
    size: int
    project: str
    documents: int
    files: int
    conversations: int
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportedProject:
    """What was taken in from an export."""

    project: str
    documents: int
    """New here."""
    unchanged: int
    """Here already."""
    embedded: int
    """Chunks for which the model had to be called."""
    conversations: int
    texts: int
    question_sets: int
    runs: int
    artifacts: int
    notices: tuple[str, ...] = ()
