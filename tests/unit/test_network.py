"""The tests' own guard: nothing but this machine is reached."""

from __future__ import annotations

import socket

import pytest


def test_the_outside_is_shut() -> None:
    with socket.socket() as connection, pytest.raises(PermissionError, match="do not use the network"):
        connection.connect(("192.0.2.1", 80))
    with pytest.raises(PermissionError, match="do not use the network"):
        socket.getaddrinfo("example.com", 80)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as packet,
        pytest.raises(PermissionError, match="do not use the network"),
    ):
        packet.sendto(b"x", ("192.0.2.1", 53))


def test_this_machine_is_open() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with socket.create_connection(("localhost", server.getsockname()[1]), timeout=5) as connection:
            assert connection.getpeername()[0] == "127.0.0.1"
