"""Q4: answers stream; model, temperature, length, stop and system context are the asker's; what is edited is sent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge.testing.model_server import ModelServer
from tests.catalogs import copy_workspace
from tests.shell import Shell, bare_environment, fill_workspace

QUESTION = "How long can a chair be returned?"
FILES = {
    "rules.md": "# Returns\n\nA chair may be returned within sixty days. The refund goes to the card that paid.\n",
    "lamps.md": "# Lamps\n\nA lamp may be returned within thirty days, if it was never lit.\n",
}
REPLY = "A chair may be returned within sixty days [1]. The refund goes to the card that paid [1]."


@pytest.fixture(scope="module")
def filled(memory_folder: Path | None) -> Iterator[Path]:
    """A workspace that no test changes."""
    with tempfile.TemporaryDirectory(dir=memory_folder) as folder:
        yield fill_workspace(Path(folder), FILES)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(reply=REPLY) as server:
        yield server


@pytest.fixture
def shell(
    filled: Path,
    tmp_path: Path,
    swift_path: Path,
    server: ModelServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Shell:
    bare_environment(monkeypatch, tmp_path)
    copy_workspace(filled, swift_path / "workspace")
    return Shell(swift_path / "workspace", capsys, *to(server))


def to(server: ModelServer) -> tuple[str, ...]:
    return (
        "--set", "model.name=openai-compatible:stub", "--set", f"model.base_url={server.base_url}",
        "--set", "model.window=16000", "--set", "ask.stages=inject",
    )  # fmt: skip


def sent(server: ModelServer) -> list[str]:
    """The texts of the last call, as they arrived."""
    return [message["content"] for message in server.calls[-1].json["messages"]]


def test_Q4_events_come_in_their_order_and_make_up_the_answer(shell: Shell) -> None:
    events = shell.json_lines("ask", QUESTION, "--stream", "--ephemeral")
    names = list(dict.fromkeys(event["event"] for event in events))
    assert names == ["retrieval", "decision", "token", "citation", "usage", "done"]
    done = events[-1]
    tokens = [event["text"] for event in events if event["event"] == "token"]
    assert len(tokens) > 5 and "".join(tokens) == done["text"] == REPLY
    citations = [event for event in events if event["event"] == "citation"]
    assert [{"event": "citation", **each} for each in done["citations"]] == citations and len(citations) == 2
    assert events[0]["sources"] == done["sources"] and not events[0]["rewritten"]
    assert {"event": "usage", **done["usage"]} == events[-2] and done["usage"]["calls"] == 1


def test_Q4_no_answer_is_streamed_too(shell: Shell) -> None:
    unknown = "What is the boiling point of mercury under pressure?"
    events = shell.json_lines("ask", unknown, "--stream", "-m", "offline", code=4)
    assert "token" not in [event["event"] for event in events] and events[-1]["kind"] == "abstention"


def test_Q4_how_the_model_writes_is_the_askers(shell: Shell, server: ModelServer) -> None:
    shell.run(
        "ask", QUESTION, "--temperature", "0.7", "--max-tokens", "77", "--stop", "END", "--stop", "FIN",
        "--system", "Speak like a pirate.", "--output", "one limerick", "--agent", "librarian",
        "-m", "openai-compatible:other", "--file", "rules.md",
    )  # fmt: skip
    body = server.calls[-1].json
    assert (body["model"], body["temperature"], body["max_tokens"], body["stop"]) == ("other", 0.7, 77, ["END", "FIN"])
    system, user = sent(server)
    assert "Speak like a pirate." in system and "one limerick" in user
    assert system.index("librarian") < system.index("pirate") and "sixty days" in user and "lamp" not in user


def test_Q4_text_arrives_while_the_model_writes_and_ctrl_c_stops_it(shell: Shell, server: ModelServer) -> None:
    server.piece_seconds = 0.2
    with shell.forge() as forge:
        id = forge.begin_conversation("chairs").id
    command = [sys.executable, "-m", "ragforge.interfaces.cli.main", "-w", str(shell.workspace), *to(server)]
    process = subprocess.Popen(
        [*command, "ask", QUESTION, "-c", id], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    assert process.stdout and process.stderr
    assert process.stdout.read(len("A ")) == b"A " and process.poll() is None
    process.send_signal(signal.SIGINT)
    rest, told = process.communicate(timeout=30)
    assert process.returncode == 130 and told == b"Stopped. No answer was kept.\n"
    assert rest.endswith(b"\n") and b"paid [1]." not in rest
    deadline = time.monotonic() + 5
    while not server.disconnects and time.monotonic() < deadline:
        time.sleep(0.02)
    assert server.disconnects == 1
    with shell.forge() as forge:
        [logged] = forge.query_log()
        assert forge.turns(id) == [] and (logged.kind, logged.cited) == ("error", ()) and logged.input_tokens > 0


# -- the prompt in an editor


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An editor that keeps what it was given, and does what the file `do` says."""
    script = tmp_path / "editor.py"
    script.write_text(
        "import pathlib, sys\n"
        "here, file = pathlib.Path(__file__).parent, pathlib.Path(sys.argv[1])\n"
        "text = file.read_bytes()\n"
        "(here / 'given').write_bytes(text)\n"
        "exec((here / 'do').read_text())\n"
    )
    (tmp_path / "do").write_text("")
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
    return tmp_path


def messages_in(file: bytes) -> list[str]:
    """What stands below the lines that the editor's file begins its messages with."""
    first, *rest = file.decode().splitlines(keepends=True)
    texts, mark = [""], " ".join(first.split()[:2])
    for line in rest:
        if line.startswith(mark):
            texts.append("")
        else:
            texts[-1] += line
    return [text.removesuffix("\n") for text in texts]


def test_Q4_an_unchanged_prompt_is_sent_as_it_was_shown(shell: Shell, server: ModelServer, editor: Path) -> None:
    done = shell.run("ask", QUESTION, "--edit")
    given = messages_in((editor / "given").read_bytes())
    assert len(given) == 2 and sent(server) == given and QUESTION in given[1]
    assert done.stdout.startswith(REPLY)


def test_Q4_what_is_saved_is_sent_byte_for_byte(shell: Shell, server: ModelServer, editor: Path) -> None:
    changed = "text.replace(b'chair', 'ch\u00e4ir \u2764\\n\\n  '.encode()) + b'P.S. Be brief. \\n\\n\\n'"
    (editor / "do").write_text(f"saved = {changed}\nfile.write_bytes(saved)\n(here / 'saved').write_bytes(saved)")
    answer = shell.json("ask", QUESTION, "--edit")
    saved = messages_in((editor / "saved").read_bytes())
    assert sent(server) == saved and saved[1].endswith("P.S. Be brief. \n\n")
    assert answer["text"] == REPLY and answer["citations"][0]["document"] == "rules.md"


@pytest.mark.parametrize(
    ("does", "code", "says"),
    [
        ("file.write_bytes(b'')", 130, "The prompt is empty: nothing was sent."),
        ("file.write_bytes(b' \\n')", 130, "The prompt is empty: nothing was sent."),
        ("file.unlink()", 130, "The prompt is empty: nothing was sent."),
        ("sys.exit(3)", 2, "the editor ended with 3"),
        ("file.write_bytes(b'only this')", 2, "the lines that begin with ===== are not as they were"),
        ("file.write_bytes(text + b'\\xff')", 2, "not UTF-8"),
    ],
)
def test_Q4_a_prompt_that_is_not_to_be_sent_is_not(
    shell: Shell, server: ModelServer, editor: Path, does: str, code: int, says: str
) -> None:
    (editor / "do").write_text(does)
    done = shell.run("ask", QUESTION, "--edit", code=code)
    assert says in done.stderr and done.stdout == "" and not server.calls
    with shell.forge() as forge:
        assert forge.query_log() == []


def test_Q4_an_editor_that_is_not_there(shell: Shell, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for variables, says in (
        ({"EDITOR": "no-such-editor"}, "no-such-editor cannot be started"),
        ({"EDITOR": "'"}, "is no command"),
        ({"VISUAL": "no-such-visual", "EDITOR": "true"}, "no-such-visual cannot be started"),
        ({"VISUAL": "", "EDITOR": "", "PATH": os.devnull}, "there is no editor"),
    ):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        done = shell.run("ask", QUESTION, "--edit", code=2)
        assert says in done.stderr and "Next: set" in done.stderr and not server.calls
