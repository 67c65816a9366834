"""Where a workspace keeps original bytes and uploads that wait: in its folder, in one of all machines, or in S3."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ragforge.adapters.blobs.claim import Claim, Claimant
from ragforge.adapters.blobs.folder import FolderBlobs, FolderMarks
from ragforge.errors import StoreError, UserError
from ragforge.ports import BlobStore, Clock, UploadStore

_BUCKET = re.compile(r"s3://([^/]+)/?(.*)")
_SCHEME = re.compile(r"[a-z0-9+]{2,}://")


@dataclass(frozen=True, slots=True)
class Storage:
    """Both of them."""

    blobs: BlobStore
    inbox: Path
    """Where uploads are received; they also wait there, unless there are `uploads`."""
    uploads: UploadStore | None = None
    close: Callable[[], None] = lambda: None
    claim: Claim | None = None
    """That it belongs to one catalog, where others could name it too."""
    former_inbox: Path | None = None
    """Where uploads waited on this machine before the settings named a folder."""

    def reach(self) -> None:
        """Raises if it does not answer, or is not the place any more that it was."""
        self.blobs.reach()
        if self.claim is not None:
            self.claim.look()


def storage(
    place: str, url: str, workspace: Path, clock: Clock, catalog: Callable[[], Claimant] | None = None
) -> Storage:
    """What the settings `store.blobs` and `store.blobs_url` name. `catalog`: that whose files are kept there."""
    if not place:
        return Storage(FolderBlobs(workspace / "uploads", clock), workspace / "inbox")
    if found := _BUCKET.fullmatch(place):
        return _in_bucket(found[1], found[2], url, workspace, clock, catalog)
    folder = _folder(place)
    claim = Claim(str(folder), FolderMarks(folder), catalog)
    blobs = FolderBlobs(folder, clock, shared=True, claim=claim, look=claim.look)
    return Storage(blobs, folder / "inbox", claim=claim, former_inbox=workspace / "inbox")


def _in_bucket(
    name: str, folder: str, url: str, workspace: Path, clock: Clock, catalog: Callable[[], Claimant] | None
) -> Storage:
    from ragforge.adapters.blobs.s3 import Bucket, S3Blobs, S3Uploads

    bucket = Bucket(name, folder, url)
    claim = Claim(str(bucket), bucket, catalog)
    blobs, uploads = S3Blobs(bucket, clock, claim), S3Uploads(bucket, claim)
    return Storage(blobs, workspace / "inbox", uploads, bucket.close, claim)


def _folder(place: str) -> Path:
    """It must be there: a share that is not mounted would be taken for an empty folder of this machine."""
    if _SCHEME.match(place) and not place.startswith("file:///"):
        raise UserError(f"store.blobs cannot be {place!r}", hint="name a folder, or s3://BUCKET/FOLDER")
    folder = Path(unquote(urlsplit(place).path) if place.startswith("file:///") else place).expanduser()
    if not folder.is_absolute():
        raise UserError(f"store.blobs must be a whole path, not {place!r}", hint="begin it with /")
    if not folder.is_dir():
        raise StoreError(f"there is no folder {folder}", hint="mount it, or make it; store.blobs names it")
    return folder
