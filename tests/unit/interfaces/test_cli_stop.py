"""Ctrl-C: the first asks the work to stop, the second ends the process, even inside code that cannot be interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from ragforge.interfaces.cli.stop import stoppable

PATIENT = """
import os
from ragforge.interfaces.cli.stop import stoppable
with stoppable(lambda: os.write(1, b"stopping\\n")) as cancel:
    os.write(1, b"working\\n")
    os.write(1, b"cancelled\\n" if cancel.wait(30) else b"never\\n")
"""

DEAF = """
import ctypes, os
from ragforge.interfaces.cli.stop import stoppable
with stoppable(lambda: os.write(1, b"stopping\\n")) as cancel:
    os.write(1, b"working\\n")
    for _ in range(30):
        ctypes.CDLL(None).usleep(1_000_000)
"""


def start(script: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "working\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_sets_the_cancel(number: signal.Signals) -> None:
    process = start(PATIENT)
    process.send_signal(number)
    assert process.stdout
    output = process.stdout.read()
    assert sorted(output.split()) == ["cancelled", "stopping"]
    assert process.wait(10) == 0
    process.stdout.close()


def test_the_second_signal_ends_it_at_once() -> None:
    process = start(DEAF)
    process.send_signal(signal.SIGINT)
    assert process.stdout and process.stdout.readline() == "stopping\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=5) == 130
    process.stdout.close()


def test_the_handlers_before_come_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stoppable(lambda: None) as cancel:
        os.kill(os.getpid(), signal.SIGINT)
        assert cancel.wait(5)
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        signal.sigtimedwait([], 1)
