"""A found file -> its bytes stored safely, hashed, and typed by what they are."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from dataclasses import dataclass

from ragforge.domain.documents import ParseFailure, Reason, digest
from ragforge.domain.library import Source
from ragforge.domain.sizes import over_limit_text
from ragforge.errors import TooLarge
from ragforge.ingest.types import FileType, sniff
from ragforge.ingest.walk import Found
from ragforge.ports import BlobStore

UNKNOWN = FileType("unknown", "application/octet-stream", "")


@dataclass(frozen=True, slots=True)
class Accepted:
    """A file whose bytes are stored. With a failure, it is kept but goes no further."""

    source: Source
    type: FileType
    blob: str
    """Empty when the bytes were not stored: too large."""
    failure: ParseFailure | None = None


def accept(found: Found, owner: str, blobs: BlobStore, limit: int) -> Accepted:
    """Store, hash and type one file. Raises OSError if it cannot be read."""
    name = safe_name(found.name)
    key = found.key
    if found.size > limit:
        return _too_large(found, key, name, limit)
    with open(found.path, "rb", opener=_without_waiting) as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "no longer a regular file")
        try:
            blob = blobs.put(owner, file, limit)
        except TooLarge:
            return _too_large(found, key, name, limit)
        source = Source(key, name, blob.size, info.st_mtime_ns, blob.sha256)
        try:
            kind = sniff(file, name, blob.size)
        except BaseException:
            blobs.remove(blob.key)
            raise
    if isinstance(kind, ParseFailure):
        return Accepted(source, UNKNOWN, blob.key, kind)
    return Accepted(source, kind, blob.key)


def _without_waiting(path: str, flags: int) -> int:
    """A file that became a pipe since it was seen would be waited for without end."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _too_large(found: Found, key: str, name: str, limit: int) -> Accepted:
    """Known by path, size and time alone, so that the next run need not look again."""
    stand_in = digest("unread", key, str(found.size), str(found.mtime_ns))
    failure = ParseFailure(
        Reason.TOO_LARGE,
        over_limit_text(found.size, limit),
        "split the file, or raise limits.file_bytes in ragforge.toml",
    )
    return Accepted(Source(key, name, found.size, found.mtime_ns, stand_in), UNKNOWN, "", failure)


def upload_name(name: str) -> str:
    """Of a file that was sent: whatever folders its sender named, on any system, are none of ours."""
    return safe_name(name.replace("\\", "/").rpartition("/")[2])


def safe_name(name: str) -> str:
    """A file name as it is shown and embedded: no control or direction characters, bounded."""
    text = name.encode(errors="surrogateescape").decode(errors="replace")
    text = "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Cs") else c for c in text)
    return unicodedata.normalize("NFC", text).strip()[:255] or "unnamed"
