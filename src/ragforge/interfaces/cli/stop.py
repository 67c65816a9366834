"""Ctrl-C and SIGTERM: the first asks the work to stop, the second ends it at once."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ragforge.domain.cancel import Cancel

STOPPED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stoppable(on_stop: Callable[[], None]) -> Iterator[Cancel]:
    """A `Cancel` that the user sets. A thread listens, so that long work in C code does not delay a second Ctrl-C."""
    cancel = Cancel()
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before = {number: signal.signal(number, _leave_to_listener) for number in _SIGNALS}
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    listener = threading.Thread(target=_listen, args=(reader, cancel, on_stop), daemon=True)
    listener.start()
    try:
        yield cancel
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        writer.close()
        listener.join()
        reader.close()


def _leave_to_listener(number: int, frame: object) -> None:
    """Python must hold a handler of its own for the wake-up byte to be written."""


def _listen(reader: socket.socket, cancel: Cancel, on_stop: Callable[[], None]) -> None:
    while received := reader.recv(1):
        if received[0] not in _SIGNALS:
            continue
        if cancel.is_set:
            if sys.stderr.isatty():
                sys.stderr.write("\x1b[?25h")  # the bar hides the cursor
                sys.stderr.flush()
            os._exit(STOPPED)
        cancel.set()
        on_stop()
