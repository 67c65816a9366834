"""The socket of a server."""

from __future__ import annotations

import socket
import sys
import time
from contextlib import suppress

import pytest

from ragforge.interfaces.http.serve import listen


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have their own patience")
def test_a_closed_connection_does_not_wait_for_a_reader_that_reads_nothing() -> None:
    with listen("127.0.0.1", 0, idle_seconds=0.5) as listening, socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.connect(listening.getsockname())
        answering, _ = listening.accept()
        with answering:
            answering.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    answering.send(bytes(65_536))
            deadline = time.monotonic() + 10
            while not answering.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                assert time.monotonic() < deadline, "it waits on"
                time.sleep(0.05)
