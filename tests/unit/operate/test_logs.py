"""Log lines: one for each event, none that anybody can forge, and no secret in any of them."""

from __future__ import annotations

import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.operate.logs import HIDDEN, Form, Redactor, known_secrets, logging_to
from ragforge.settings import load

OURS = "rf_0123456789ab_" + "x" * 43
PROVIDERS = "sk-proj-0123456789abcdefghij"

log = logging.getLogger("ragforge.test")


def told(form: Form, *secrets: str, messages: bool = False, **extra: Any) -> str:
    """What is written of one message."""
    written = io.StringIO()
    with logging_to(written, form, secrets, messages=messages):
        log.warning(extra.pop("message", "something happened"), exc_info=extra.pop("problem", None), extra=extra)
    return written.getvalue()


def failed(problem: Exception) -> Exception:
    try:
        raise problem
    except Exception as caught:
        return caught


@pytest.mark.parametrize(
    "text",
    [
        OURS,
        f"key {OURS} is wrong",
        f"Incorrect API key provided: {PROVIDERS}.",
        "Authorization: Bearer abc.def-ghi",
        "authorization=Basic dXNlcjpwYXNz",
        '{"api_key": "0123456789"}',
        "postgresql://ragforge:verysecret@localhost/ragforge",
        "https://example.org/?api-key=0123456789",
    ],
)
def test_what_has_the_shape_of_a_secret_is_hidden(text: str) -> None:
    hidden = Redactor()(text)
    secrets = (OURS, PROVIDERS, "abc.def-ghi", "dXNlcjpwYXNz", "0123456789", "verysecret")
    assert HIDDEN in hidden
    assert not any(secret in hidden for secret in secrets)


def test_a_known_secret_is_hidden_whatever_it_looks_like() -> None:
    assert Redactor(["plain-words-only"])("it was plain-words-only.") == f"it was {HIDDEN}."
    assert Redactor(["short"])("a short one stays") == "a short one stays"
    assert Redactor(["abcdefgh", "abcdefghijkl"])("abcdefghijkl") == HIDDEN
    settings = load("/nowhere", env={"RAGFORGE_STORE__DATABASE_URL": "postgresql://me:pass%21word@db/x"})
    named = {"X_API_KEY": "a", "PATH": "b", "db_password": "c", "KEYBOARD": "d"}
    assert known_secrets(settings, named) == ["a", "c", "pass!word"]


def test_ordinary_words_stay() -> None:
    told = "200 POST /v1/projects/{project}/search tokens=12 ms=3 key:0123456789ab sk-ip"
    assert Redactor()(told) == told


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_hidden_in_messages_fields_and_traces(form: Form) -> None:
    problem = failed(ValueError(f"bad {OURS} and planted-secret"))
    written = told(
        form,
        "planted-secret",
        messages=True,
        message=f"it was {PROVIDERS}",
        problem=problem,
        request_id=OURS,
        fields={"route": "/planted-secret"},
    )
    assert written.count(HIDDEN) >= 5
    assert not any(secret in written for secret in (OURS, PROVIDERS, "planted-secret"))


@given(st.text(), st.text(), st.text())
def test_nobody_can_forge_a_line(message: str, field: str, name: str) -> None:
    problem = failed(ValueError(name))
    written = io.StringIO()
    with logging_to(written, "json"):
        log.warning("%s", message, extra={"fields": {"path": field}})
    (line,) = written.getvalue().removesuffix("\n").split("\n")
    assert line.isascii() and json.loads(line)["level"] == "warning"
    written = io.StringIO()
    with logging_to(written, "text", messages=True):
        log.warning("%s", message, exc_info=problem, extra={"fields": {"path": field}})
    first, *below = written.getvalue().removesuffix("\n").split("\n")
    assert " warning " in first and all(line.startswith("  | ") for line in below)
    assert not any(ord(each) < 32 or 127 <= ord(each) < 160 for line in (first, *below) for each in line)


def test_what_an_exception_says_is_not_told_but_where_it_was() -> None:
    problem = failed(KeyError("a sentence of a document"))
    fields = json.loads(told("json", problem=problem))
    assert fields["trace"][-1] == "KeyError"
    assert any("test_logs.py" in frame and frame.endswith(" failed") for frame in fields["trace"])
    assert "sentence" not in told("text", problem=problem)
    assert "a sentence of a document" in told("text", problem=problem, messages=True)
    assert "No space left" in told("text", problem=failed(OSError(28, "No space left on device")))


def test_threads_and_libraries_are_heard_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("uvicorn", "uvicorn.error"):  # Streamlit, where a test looks at pages before, keeps them to itself
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
    written = io.StringIO()
    with logging_to(written, "json"):
        thread = threading.Thread(target=lambda: [][1])
        thread.start()
        thread.join()
        logging.getLogger("httpx").info("HTTP Request: POST https://example.org/?key=1")
        logging.getLogger("uvicorn.error").error("Exception in ASGI application\n")
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
        logging.getLogger("some.library").info("chatter")
        broken = logging.LogRecord("some.library", logging.WARNING, "", 0, "%d", ("no number",), None)
        logging.getLogger().handlers[-1].handle(broken)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [(line["logger"], line["message"]) for line in lines] == [
        ("ragforge", "a thread ended with an error"),
        ("uvicorn.error", "Invalid HTTP request received."),
        ("some.library", "a broken message"),
    ]
    assert lines[0]["trace"][-1] == "IndexError"


class Stalled(io.StringIO):
    """A pipe that nobody reads until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def write(self, text: str) -> int:
        self.let_go.wait(10)
        return super().write(text)


def test_a_reader_that_stalls_stops_nobody_and_what_was_lost_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragforge.operate.logs._WAITING_LINES", 5)
    stalled = Stalled()
    with logging_to(stalled, "text"):
        for number in range(50):
            log.warning("line %d", number)
        stalled.let_go.set()
    assert "lines were lost" in stalled.getvalue()
    assert "line 0" in stalled.getvalue() and "line 49" not in stalled.getvalue()


@pytest.fixture
def closed() -> Iterator[io.TextIOWrapper]:
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    yield stream
    with suppress(BrokenPipeError):
        stream.close()


def test_a_reader_that_is_gone_stops_nobody(closed: io.TextIOWrapper) -> None:
    with logging_to(closed, "text"):
        log.warning("nobody hears this")
    assert not any(thread.name == "ragforge-log" for thread in threading.enumerate())
