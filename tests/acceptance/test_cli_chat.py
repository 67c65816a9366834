"""`chat`: a conversation through a pipe and in a terminal."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge.testing.model_server import SERVER_ERROR, UNAUTHORIZED, ModelServer
from ragforge.testing.records import turn
from tests.forge import places_of
from tests.shell import Shell, bare_environment, fill_workspace

FILES = {
    "rules.md": "# Returns\n\n## Chairs\n\nA chair may be returned within sixty days of its delivery.\n\n"
    "## Lamps\n\nA lamp may be returned within thirty days of its delivery.\n",
    "founders.md": "# Company\n\nThe company was founded in 1987 by Inge and Klaus Petersen in Husum.\n",
    "cost.py": "def shipping_cost(weight):\n    return 4.90 if weight < 10 else 9.90\n",
}
CHAIRS = "Within how many days may a chair be returned?"
COMMANDS = ("files", "lock", "sources", "why", "prompt", "tokens", "model", "mark", "forget", "new", "help", "quit")


@pytest.fixture(scope="module")
def filled(memory_folder: Path | None) -> Iterator[Path]:
    """A workspace that no test changes."""
    with tempfile.TemporaryDirectory(dir=memory_folder) as folder:
        yield fill_workspace(Path(folder), FILES)


@pytest.fixture
def shell(
    filled: Path, tmp_path: Path, swift_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    bare_environment(monkeypatch, tmp_path)
    shutil.copytree(filled, swift_path / "workspace")
    return Shell(swift_path / "workspace", capsys)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(reply="A chair may be returned within sixty days [1].") as server:
        yield server


def to(server: ModelServer) -> tuple[str, ...]:
    return (
        "--set",
        f"model.base_url={server.base_url}",
        "--set",
        "model.window=8000",
        "--set",
        "ask.stages=memory,inject",
    )


def lines(*typed: str) -> str:
    return "".join(f"{line}\n" for line in typed)


def test_turns_are_kept_and_follow_ups_understood(shell: Shell) -> None:
    done = shell.run("chat", stdin=lines(CHAIRS, "", "And a lamp?"))
    assert "sixty days" in done.stdout and "thirty days" in done.stdout
    assert "Understood as: Within how many days may a lamp be returned?" in done.stderr
    assert done.stderr.startswith("Project default. Answers quote the files, without a language model.")
    with shell.forge() as forge:
        [conversation] = forge.conversations()
        assert conversation.title == CHAIRS
        assert [turn.question for turn in forge.turns(conversation.id)] == [CHAIRS, "And a lamp?"]
    more = shell.run("chat", "-c", "last", stdin=lines("Who founded the company?"))
    assert "going on after 2 turns" in more.stderr
    with shell.forge() as forge:
        [conversation] = forge.conversations()
        assert conversation.turns == 3


def test_the_prompt_and_the_talk_about_the_answer_are_not_in_the_data(shell: Shell) -> None:
    done = shell.run("chat", stdin=lines("Who founded the company?"))
    assert done.stdout == (
        "The company was founded in 1987 by Inge and Klaus Petersen in Husum. [1]\n\n[1] founders.md > Company\n\n"
    )


def test_a_turn_without_its_vector_gets_it_from_reindex(shell: Shell) -> None:
    shell.run("chat", stdin=lines(CHAIRS))
    with shell.forge() as forge, forge._parts.catalog.write() as c:
        thread = forge.conversation("last").id
        c.conversations.add(forge._scope, forge.project("default").id, turn(thread), "", None)
    assert "; embedded 1 turn of conversations" in shell.run("reindex").stderr
    assert "; nothing to do" in shell.run("reindex").stderr


def test_nothing_of_an_ephemeral_chat_stays(shell: Shell) -> None:
    done = shell.run("chat", "--ephemeral", stdin=lines("Who founded the qanarybird company?", "/mark"), code=2)
    assert "Petersen" in done.stdout and "Nothing of this chat is kept" in done.stderr
    assert "Error: nothing of this chat is kept" in done.stderr
    assert not places_of(b"qanarybird", shell.workspace)
    with shell.forge() as forge:
        assert forge.conversations() == []


def test_an_ephemeral_chat_understands_follow_ups(shell: Shell) -> None:
    typed = lines("When can a chair be returned?", "And a lamp?", "/forget", "/forget", "/forget")
    done = shell.run("chat", "--ephemeral", stdin=typed, code=2)
    assert "Understood as: When can a lamp be returned?" in done.stderr
    assert "Turn 2 is forgotten" in done.stderr and "Turn 1 is forgotten" in done.stderr
    assert "the conversation has no turn" in done.stderr


def test_a_chat_in_which_nothing_was_said_leaves_no_conversation(shell: Shell) -> None:
    shell.run("chat", stdin=lines("/help", "/quit", "never read"))
    shell.run("chat", stdin=lines(CHAIRS, "/forget"))
    with shell.forge() as forge:
        assert forge.conversations() == []
        given = forge.begin_conversation("for later").id
    shell.run("chat", "-c", given, "--ephemeral", stdin=lines(CHAIRS, "/new", CHAIRS))
    with shell.forge() as forge:
        assert [(each.id, each.turns) for each in forge.conversations()] == [(given, 0)]


def test_what_fails_does_not_end_the_chat(shell: Shell, server: ModelServer) -> None:
    server.script(SERVER_ERROR, SERVER_ERROR)
    typed = lines(
        "/model gpt", "/model openai-compatible:stub", "/lock", CHAIRS, "What does cost.py return?", "/lock", CHAIRS,
        "/sources", "/tokens",
    )  # fmt: skip
    done = shell.run("chat", *to(server), stdin=typed, code=2)
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 3
    assert "no language model is called 'gpt'" in errors[0] and "it names none" in errors[1] and "500" in errors[2]
    assert "Exact File Lock is on" in done.stderr and "Exact File Lock is off" in done.stderr
    answer, _, rest = done.stdout.partition("\n\n")
    assert answer == "A chair may be returned within sixty days [1]."
    assert "“A chair may be returned within sixty days of its delivery.”" in rest
    last, session = done.stdout.splitlines()[-2:]
    assert last.startswith("last ") and " tokens read" in last and session.split()[1:] == last.split()[1:]
    with shell.forge() as forge:
        assert [turn.question for turn in forge.turns(forge.conversation("last").id)] == [CHAIRS]


def test_a_model_that_cannot_answer_is_refused_when_it_is_named(shell: Shell, server: ModelServer) -> None:
    typed = lines(
        "/model openai-compatible:stub", "/model nope:xyz", "/model cheap", "/model openai:gpt-5-mini", CHAIRS
    )
    done = shell.run("chat", *to(server), stdin=typed, code=2)
    told = [line for line in done.stderr.splitlines() if line.startswith(("Error: ", "openai-compatible:stub"))]
    assert [line.startswith("Error: ") for line in told] == [False, True, True, True, False]
    refusals = ("no provider is called 'nope'", "cheap has no model", "needs a key")
    for line, says in zip(told[1:4], refusals, strict=True):
        assert says in line
    assert len(server.calls) == 1 and "sixty days" in done.stdout, "the one before goes on answering"


def test_a_pipe_learns_from_the_exit_code_what_failed_first(shell: Shell, server: ModelServer) -> None:
    server.always = UNAUTHORIZED
    stub = ("--model", "openai-compatible:stub", *to(server))
    locked = "What does cost.py return?"
    shell.run("chat", "--lock", *stub, stdin=lines(locked, "/nothing", locked), code=7)
    shell.run("chat", "--lock", *stub, stdin=lines("/nothing", locked, "/quit"), code=2)
    shell.run("chat", stdin=lines("Who was Napoleon's cook?"))


def test_files_are_switched_in_the_chat(shell: Shell) -> None:
    typed = lines("/files off founders.md", "/files", "Who founded the company?", "/files on founders.md", "/files x")
    done = shell.run("chat", stdin=typed, code=2)
    assert "off  founders.md" in done.stdout and "on   founders.md" in done.stdout and "Petersen" not in done.stdout
    table = done.stdout.partition("USE")[2].splitlines()
    assert [line.split()[:2] for line in table[1:4]] == [["on", "cost.py"], ["off", "founders.md"], ["on", "rules.md"]]
    assert "/files does not know 'x'" in done.stderr
    with shell.forge() as forge:
        assert all(document.enabled for document in forge.documents())


def test_the_way_of_the_answer_and_its_prompt(shell: Shell, server: ModelServer) -> None:
    done = shell.run("chat", stdin=lines("/why", "/prompt", CHAIRS, "/why", "/prompt"), code=2)
    assert done.stderr.count("Error: nothing was asked yet") == 2
    assert "candidates:" in done.stdout and "── Task, " in done.stdout and "No language model is set" in done.stderr
    with_model = shell.run("chat", "-m", "openai-compatible:stub", *to(server), stdin=lines(CHAIRS, "/prompt"))
    sent = server.calls[-1].json["messages"][-1]["content"]
    assert all(line in with_model.stdout for line in sent.splitlines()) and len(server.calls) == 1
    assert "No language model is set" not in with_model.stderr


def test_a_turn_is_marked_and_forgotten(shell: Shell) -> None:
    typed = lines("/forget", CHAIRS, "/mark", "Who founded the company?", "/forget", "/why")
    done = shell.run("chat", stdin=typed, code=2)
    assert "Error: the conversation has no turn" in done.stderr and "Turn 1 is remembered" in done.stderr
    assert "Turn 2 is forgotten: “Who founded the company?”" in done.stderr and "query log still has" in done.stderr
    assert "Error: nothing was asked yet" in done.stderr
    with shell.forge() as forge:
        [turn] = forge.turns(forge.conversation("last").id)
        assert (turn.question, turn.importance) == (CHAIRS, 1.0)


def test_a_new_conversation_knows_nothing_of_the_old_one(shell: Shell) -> None:
    done = shell.run("chat", stdin=lines(CHAIRS, "/new", "And a lamp?"))
    assert "Understood as" not in done.stderr
    with shell.forge() as forge:
        assert [conversation.title for conversation in forge.conversations()] == ["And a lamp?", CHAIRS]


def test_commands_are_listed_and_unknown_ones_named(shell: Shell) -> None:
    done = shell.run("chat", stdin=lines("/help", "/etc/hosts", "/", " /who founded the company"), code=2)
    assert [line.split()[0] for line in done.stdout.splitlines()[: len(COMMANDS)]] == [f"/{name}" for name in COMMANDS]
    assert "Error: there is no command /etc/hosts" in done.stderr
    assert done.stderr.count(", ".join(f"/{name}" for name in COMMANDS)) == 2
    assert "Petersen" in done.stdout  # a space before it makes it a question


def test_programs_get_a_line_for_each_line(shell: Shell) -> None:
    typed = lines(CHAIRS, "/tokens", "/files", "/sources", "/why", "/prompt", "/help", "/files off cost.py", "/lock")
    answer, tokens, files, sources, why, prompt, help, off = shell.json_lines("chat", stdin=typed)
    assert answer["kind"] == "answer" and answer["turn"] == 1 and answer["conversation"]
    assert tokens["session"]["calls"] == 0 and len(files["documents"]) == len(FILES)
    assert sources["citations"][0]["document"] == "rules.md" and why["question"] == CHAIRS
    assert prompt["messages"] and set(help["commands"]) == set(COMMANDS)
    assert [document["enabled"] for document in off["documents"]] == [False]
    failed = shell.run("chat", "--json", stdin=lines("/nothing"), code=2)
    assert failed.stdout == "" and '"code": "UserError"' in failed.stderr


def test_bytes_that_are_no_text_are_no_fault(shell: Shell) -> None:
    assert "Petersen" in shell.run("chat", stdin="Who founded \udcff\udcfe the company?\r\n").stdout


AT_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""Makes the terminal one that sends signals."""


class Terminal:
    """A process at a terminal."""

    def __init__(self, *command: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", AT_TERMINAL, *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, text: str, seconds: float = 30) -> None:
        """Until the text is shown, after all that was waited for before."""
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} not in {self.shown!r}"
            if select.select([self._ours], [], [], 0.1)[0]:
                self.shown += os.read(self._ours, 65536).decode()
        self.shown = self.shown.partition(text)[2]

    def close(self) -> int:
        code = self.process.wait(30)
        os.close(self._ours)
        return code


def test_a_terminal_edits_lines_and_ctrl_c_leaves_only_the_line(shell: Shell) -> None:
    shell.run("chat", stdin=lines("Who founded the company?"))
    command = (sys.executable, "-m", "ragforge.interfaces.cli.main", "-w", str(shell.workspace), "chat", "-c", "last")
    terminal = Terminal(*command)
    terminal.wait_for("going on after 1 turn")
    terminal.wait_for("> ")
    terminal.type("half a line")
    terminal.wait_for("half a line")
    time.sleep(0.1)  # the line's last letter is shown just before the terminal listens again
    terminal.type("\x03")
    terminal.wait_for("Ctrl-D or /quit ends the chat")
    terminal.wait_for("> ")
    terminal.type("\x1b[A")  # what was asked before is a key away
    terminal.wait_for("Who founded the company?")
    terminal.type("\r")
    terminal.wait_for("Petersen in Husum. [1]")
    terminal.wait_for("no language model was asked")
    terminal.wait_for("> ")
    terminal.type("\x04")
    assert terminal.close() == 0
    with shell.forge() as forge:
        assert forge.conversation("last").turns == 2
