"""A way to a server on which connections break."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress


class Cutting:
    """A way to the server on which connections are cut: after so many bytes there, or back. Later ones are not."""

    def __init__(self, url: str, *, there: int = sys.maxsize, back: int = sys.maxsize, cuts: int = sys.maxsize) -> None:
        self._target = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._limits = there, back
        self.left, self.cut = cuts, 0

    @contextmanager
    def listening(self) -> Iterator[str]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=self._accept, args=(server,), daemon=True).start()
            yield f"http://127.0.0.1:{server.getsockname()[1]}"

    def _accept(self, server: socket.socket) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = server.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with ExitStack() as ends:
            ends.enter_context(client)
            target = ends.enter_context(socket.create_connection(self._target))
            pumps = [
                threading.Thread(target=self._pump, args=(a, b, limit), daemon=True)
                for a, b, limit in ((client, target, self._limits[0]), (target, client, self._limits[1]))
            ]
            for pump in pumps:
                pump.start()
            for pump in pumps:
                pump.join()

    def _pump(self, source: socket.socket, sink: socket.socket, limit: int) -> None:
        carried = 0
        with suppress(OSError):
            while data := source.recv(65_536):
                carried += len(data)
                if carried > limit and self.left > 0:
                    self.left -= 1
                    self.cut += 1
                    break
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
