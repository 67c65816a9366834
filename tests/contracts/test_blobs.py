"""Every store of original bytes keeps the same contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge.adapters.blobs.folder import FolderBlobs
from ragforge.adapters.blobs.s3 import Bucket, S3Blobs
from ragforge.ports import BlobStore
from ragforge.testing.contracts.blobs import KEY, BlobStoreContract, march
from ragforge.testing.s3 import TemporaryS3


class TestFolder(BlobStoreContract):
    @pytest.fixture
    def blobs(self, swift_path: Path) -> BlobStore:
        return FolderBlobs(swift_path / "uploads", march)


class TestFolderWithAnInbox(BlobStoreContract):
    """As it is where all machines keep theirs: other things lie beside it."""

    @pytest.fixture
    def blobs(self, swift_path: Path) -> BlobStore:
        (swift_path / "inbox").mkdir()
        (swift_path / "inbox" / ("0" * 32)).touch()
        (swift_path / "photos" / "2025").mkdir(parents=True)
        (swift_path / "photos" / "2025" / "summer.jpg").touch()
        return FolderBlobs(swift_path, march, shared=True)


class TestS3(BlobStoreContract):
    versioned = False

    @pytest.fixture
    def blobs(self, s3: TemporaryS3) -> Iterator[BlobStore]:
        name, _, folder = s3.create(versioned=self.versioned).removeprefix("s3://").partition("/")
        bucket, client = Bucket(name, folder, s3.url), s3.client
        client.put_object(Bucket=name, Key=f"{folder}/inbox/{'0' * 32}", Body=b"waits")
        client.put_object(Bucket=name, Key=f"{folder}-of-another/{KEY}", Body=b"not ours")
        yield S3Blobs(bucket, march)
        bucket.close()


class TestS3WithVersions(TestS3):
    versioned = True
