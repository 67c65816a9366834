"""`ask` and `prompt` as a person and a program use them, without a model and with one that misbehaves."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge.testing.model_server import BREAKS_OFF, STALL, UNAUTHORIZED, UNKNOWN_MODEL, ModelServer
from tests.forge import places_of
from tests.shell import Shell, bare_environment, fill_workspace

QUESTION = "How long can a chair be returned?"
UNKNOWN = "What is the boiling point of mercury under pressure?"
FILES = {
    "rules.md": "# Returns\n\nThe time begins on the day after delivery.\n\n## Chairs\n\nA chair may be returned "
    "within sixty days. The refund goes to the card that paid.\n\n## Lamps\n\nA lamp may be returned within thirty "
    "days.\n",
    "founders.md": "# Company\n\nThe company was founded in 1987 by Inge and Klaus Petersen in Husum.\n",
    "evil.md": "# Squeaky\n\nThe squeaking wheel \x1b[2J\x1b[31mis red\u202e and blinks, says the wheelwright.\n",
    "a/travel.md": "# Trains\n\nTrain tickets are refunded within ten days of the journey.\n",
    "b/travel.md": "# Ships\n\nShip tickets are refunded within twenty days of the journey.\n",
    "cost.py": "def shipping_cost(weight):\n    return 4.90 if weight < 10 else 9.90\n",
    "talk.vtt": "WEBVTT\n\n00:01:05.000 --> 00:01:12.000\n<v Mara>The warehouse in Flensburg closes on the fifth of "
    "July.\n",
}


@pytest.fixture(scope="module")
def filled(memory_folder: Path | None) -> Iterator[Path]:
    """A workspace whose files no test changes."""
    with tempfile.TemporaryDirectory(dir=memory_folder) as folder:
        yield fill_workspace(Path(folder), FILES)


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare_environment(monkeypatch, tmp_path)


@pytest.fixture
def shell(filled: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(filled, capsys)


@pytest.fixture
def own(filled: Path, swift_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A copy that a test may change."""
    shutil.copytree(filled, swift_path / "copy")
    return Shell(swift_path / "copy", capsys)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(reply="A chair may be returned within sixty days [1].") as server:
        yield server


@pytest.fixture
def asking(shell: Shell, server: ModelServer) -> Shell:
    """A workspace whose answers a model writes; the stages around it go by rules."""
    return shell.with_options(
        "--set", "model.name=openai-compatible:stub", "--set", f"model.base_url={server.base_url}",
        "--set", "model.window=8000", "--set", "ask.stages=inject",
    )  # fmt: skip


# -- an answer


def test_the_answer_is_text_then_sources_and_says_that_it_quotes(shell: Shell) -> None:
    done = shell.run("ask", "Who founded the company?", "--ephemeral")
    text, empty, source = done.stdout.splitlines()
    assert text == "The company was founded in 1987 by Inge and Klaus Petersen in Husum. [1]"
    assert (empty, source) == ("", "[1] founders.md > Company")
    assert done.stderr == "Quoted from the files as they stand: no language model was asked\n"
    assert shell.run("ask", "Who founded", "the company?", "-q", "--ephemeral").stderr == ""


def test_a_source_is_named_with_its_headings_and_its_time(shell: Shell) -> None:
    assert "[1] rules.md > Returns > Chairs\n" in shell.run("ask", QUESTION, "--ephemeral").stdout
    assert "talk.vtt, t=1:05\n" in shell.run("ask", "When does the warehouse in Flensburg close?").stdout


def test_files_with_one_name_are_told_apart(asking: Shell, server: ModelServer) -> None:
    server.reply = "Tickets are refunded within ten days of the journey [1], or within twenty days [2]."
    done = asking.run("ask", "When are tickets refunded after the journey?", "--file", "*/travel.md")
    assert {line[4:] for line in done.stdout.splitlines()[-2:]} == {"a/travel.md > Trains", "b/travel.md > Ships"}


@pytest.mark.parametrize(
    ("style", "shown"),
    [("place", "talk.vtt, t=1:05"), ("time", "[source: talk.vtt, t=1:05]"), ("page", "[source: talk.vtt]")],
)
def test_sources_are_written_as_one_likes(shell: Shell, style: str, shown: str) -> None:
    asked = shell.run("ask", "When does the warehouse in Flensburg close?", "--cite", style).stdout
    assert asked.splitlines()[-1].partition(" ")[2] == shown


def test_a_chunk_is_cited_by_its_id(shell: Shell) -> None:
    answer = shell.json("ask", "Who founded the company?")
    cited = shell.run("ask", "Who founded the company?", "--cite", "chunk").stdout.splitlines()[-1]
    assert cited == f"[1] [chunk: {answer['citations'][0]['chunk_id']}]"


def test_programs_get_the_fields_of_the_contract(shell: Shell) -> None:
    answer = shell.json("ask", QUESTION)
    assert list(answer)[:9] == [
        "kind", "text", "citations", "sources", "removed_citations", "reason", "suggestion", "usage", "trace_id",
    ]  # fmt: skip
    assert answer["kind"] == "answer" and answer["text"] and answer["trace_id"]
    assert answer["removed_citations"] == [] and answer["reason"] is answer["suggestion"] is None
    for citation in answer["citations"]:
        assert list(citation)[:5] == ["marker", "chunk_id", "document", "locator", "quote"] and citation["proved"]
        [source] = [each for each in answer["sources"] if each["number"] == citation["marker"]]
        assert citation["quote"] in source["text"] and citation["chunk_id"] in source["chunk_ids"]
        assert answer["text"][citation["start"] : citation["end"]] == f"[{citation['marker']}]"
    for source in answer["sources"]:
        assert list(source)[:6] == ["chunk_id", "document", "locator", "checksum", "score", "text"]
    assert answer["quoted"] and answer["model"] is None and answer["usage"]["calls"] == 0


def test_what_the_files_do_not_hold_is_not_answered(shell: Shell) -> None:
    done = shell.run("ask", UNKNOWN, code=4)
    said, nearest = done.stdout.split("\n\n")
    assert "boiling" in said and "mercury" in said
    first, *passages = nearest.splitlines()
    assert first == "Nearest:" and passages and all(line.startswith("- ") and len(line) <= 100 for line in passages)
    answer = shell.json("ask", UNKNOWN, code=4)
    assert answer["kind"] == "abstention" and answer["why"] in ("weak_evidence", "gated")
    assert answer["text"] == f"{answer['reason']} {answer['suggestion']}" == said.strip()
    assert answer["citations"] == [] and [each["document"] for each in answer["nearest"]]


def test_an_empty_project_says_what_to_do(own: Shell) -> None:
    own.run("project", "new", "empty")
    done = own.run("ask", QUESTION, "-p", "empty", code=4)
    assert f"Add files with ragforge add -w {own.workspace} -p empty" in done.stdout and "Nearest" not in done.stdout


def test_a_question_comes_through_a_pipe(shell: Shell) -> None:
    piped = shell.run("ask", "-", stdin="Who founded\nthe company?\n")
    assert piped.stdout == shell.run("ask", "Who founded the company?").stdout
    for nothing in ("", " \n"):
        assert "the question is empty" in shell.run("ask", "-", stdin=nothing, code=2).stderr
    shell.run("ask", "-", stdin="Who founded \udcff\udcfe the company?")


def test_text_of_files_cannot_act_on_the_terminal(shell: Shell) -> None:
    for arguments in (("ask", "What is red and blinks, the squeaking wheel?"), ("prompt", "squeaking wheel")):
        assert "\x1b" not in shell.run(*arguments).stdout


def test_filters_and_the_number_of_passages_hold_for_answers(shell: Shell) -> None:
    answer = shell.json("ask", QUESTION, "--file", "founders.md", "--strictness", "0", code=4)
    assert {source["document"] for source in answer["sources"]} == {"founders.md"}
    assert len(shell.json("ask", QUESTION, "-k", "2", "--stages", "")["sources"]) == 2
    later = shell.json("ask", QUESTION, "--since", "2999-01-01", code=4)
    assert later["sources"] == [] and "matches the filters" in later["notices"][0]


def test_how_it_came_about_is_told_on_demand(shell: Shell) -> None:
    assert "candidates:" in shell.run("ask", QUESTION, "--why").stdout
    account = shell.json("ask", QUESTION, "--why")["account"]
    assert account["question"] == QUESTION and account["candidates"]


def test_a_follow_up_is_shown_as_it_was_understood(own: Shell) -> None:
    with own.forge() as forge:
        id = forge.begin_conversation("returns").id
    own.run("ask", QUESTION, "-c", id[:6])
    done = own.run("ask", "And a lamp?", "-c", "last")
    assert done.stderr.startswith("Understood as: ") and "lamp" in done.stderr.splitlines()[0]
    assert "thirty days" in done.stdout
    answer = own.json("ask", "And a chair?", "-c", "last", "--ephemeral")
    assert answer["rewritten"] and answer["conversation"] == id
    with own.forge() as forge:
        assert [turn.question for turn in forge.turns(id)] == [QUESTION, "And a lamp?"]


def test_nothing_of_an_ephemeral_question_stays(own: Shell) -> None:
    own.run("ask", "Who founded the qanarybird company?", "--ephemeral")
    assert not places_of(b"qanarybird", own.workspace)
    own.run("ask", "Who founded the qanarybird company?")
    assert places_of(b"qanarybird", own.workspace)


# -- mistakes


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("ask", ""), 2, "the question is empty"),
        (("ask", "x", "-p", "elsewhere"), 5, "no project 'elsewhere'"),
        (("ask", "x", "-m", "gpt"), 2, "no language model is called 'gpt'"),
        (("ask", "x", "-m", "openai:gpt-5-mini"), 2, "needs a key"),
        (("ask", "x", "-m", "openai-compatible:any"), 2, "needs the address"),
        (("ask", "x", "--agent", "nobody"), 5, "no agent 'nobody'"),
        (("ask", "x", "-c", "zzz"), 5, "no conversation 'zzz'"),
        (("chat", "-c", "zzz"), 5, "no conversation 'zzz'"),
        (("ask", "x", "--stages", "gat"), 2, "no stage is called 'gat'"),
        (("ask", "x", "--strictness", "2"), 2, "'--strictness'"),
        (("ask", "x", "--cite", "footnote"), 2, "'--cite'"),
        (("ask", "x", "--file", "gone.md"), 5, "no file 'gone.md'"),
        (("ask", "How long is a chair?", "--lock"), 2, "it names none"),
        (("ask", "x", "--edit"), 2, "no language model to send the prompt to"),
        (("prompt", "x", "-m", "gpt"), 2, "no language model is called 'gpt'"),
        (("chat", "-m", "gpt"), 2, "no language model is called 'gpt'"),
    ],
)
def test_a_mistake_is_one_sentence_and_a_next_step(
    shell: Shell, arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = shell.run(*arguments, code=code)
    error, step = done.stderr.splitlines()
    assert done.stdout == "" and error.startswith("Error: ") and says in error and step.startswith("Next: ")


@pytest.mark.parametrize("command", [("ask", "x"), ("prompt", "x"), ("chat",), ("make", "blueprint", "--dry-run")])
def test_a_profile_without_a_model_is_named_with_its_setting(shell: Shell, command: tuple[str, ...]) -> None:
    for settings in ((), ("--set", "model.name=offline")):
        done = shell.run(*command, "--model", "cheap", *settings, code=2)
        error, step = done.stderr.splitlines()
        assert done.stdout == "" and error == "Error: the profile cheap has no model"
        assert "set model.cheap in ragforge.toml" in step and "openai:" in step


def test_a_profile_without_a_model_of_its_own_has_that_of_the_settings(asking: Shell) -> None:
    assert asking.json("ask", QUESTION, "--ephemeral", "--model", "cheap")["model"] == "openai-compatible:stub"


# -- with a model


def test_tokens_and_price_are_said(asking: Shell) -> None:
    done = asking.run("ask", QUESTION, "--ephemeral")
    assert done.stdout.startswith("A chair may be returned within sixty days [1].\n\n[1] rules.md")
    assert "openai-compatible:stub: " in done.stderr and " written in 1 call, free" in done.stderr
    answer = asking.json("ask", QUESTION, "--ephemeral")
    assert answer["model"] == "openai-compatible:stub" and answer["usage"]["input_tokens"] > 100
    assert asking.json("ask", QUESTION, "-m", "offline")["model"] is None


def test_what_the_check_finds_is_said(asking: Shell, server: ModelServer) -> None:
    server.reply = (
        "A chair may be returned within ninety days [1]. See ![x](http://evil.example/x.png) for it [77]. "
        "The moon orbits our planet every month."
    )
    done = asking.run("ask", QUESTION)
    assert "evil.example" not in done.stdout and "[77]" not in done.stdout
    warnings = [line for line in done.stderr.splitlines() if line.startswith("Warning: ")]
    for said in ("“A chair may be returned within ninety days.”", "the number ninety", "[77]", "image", "no source"):
        assert any(said in warning for warning in warnings), said
    answer = asking.json("ask", QUESTION)
    assert answer["unproved"] == ["A chair may be returned within ninety days."] and answer["stripped"]
    assert [each["marker"] for each in answer["removed_citations"]] == ["[77]"] and answer["uncited"] >= 1


def test_a_model_that_says_it_is_not_there_is_believed(asking: Shell, server: ModelServer) -> None:
    server.reply = "NOT IN THE SOURCES"
    answer = asking.json("ask", QUESTION, code=4)
    assert answer["why"] == "model_says" and answer["usage"]["calls"] == 1


@pytest.mark.parametrize(
    ("fault", "warning", "step"),
    [
        (UNAUTHORIZED, "refused the key (401)", "set OPENAI_API_KEY"),
        (UNKNOWN_MODEL, "no model is called openai:gpt-4.1-minni", "did you mean openai:gpt-4.1-mini"),
    ],
)
def test_without_its_model_a_question_gets_quotes_and_the_reason(
    shell: Shell, server: ModelServer, monkeypatch: pytest.MonkeyPatch, fault: str, warning: str, step: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-1234")
    server.always = fault
    named = shell.with_options(
        "--set", f"model.base_url={server.base_url}", "--set", "model.name=openai:gpt-4.1-minni",
        "--set", "model.window=8000", "--set", "ask.stages=inject",
    )  # fmt: skip
    done = named.run("ask", "Who founded the company?")
    assert "Klaus Petersen" in done.stdout and "sk-wrong" not in done.stdout + done.stderr
    assert warning in done.stderr and f"Next: {step}" in done.stderr and "these are quotes" in done.stderr
    locked = named.run("ask", "What does cost.py return?", "--lock", code=7)
    assert locked.stdout == "" and locked.stderr.startswith("Error: ") and step in locked.stderr


def test_an_answer_that_breaks_off_says_so(asking: Shell, server: ModelServer) -> None:
    server.always = BREAKS_OFF
    done = asking.run("ask", QUESTION)
    assert done.stdout.startswith("A chair may") and "stopped in the middle" in done.stderr


def test_a_model_that_is_silent_is_not_waited_for(asking: Shell, server: ModelServer) -> None:
    server.always = STALL
    done = asking.run("ask", QUESTION, "--set", "model.timeout_seconds=3")
    assert "sixty days" in done.stdout and "in the time given" in done.stderr


# -- the prompt


def test_a_prompt_is_shown_by_parts_with_tokens_price_and_room(asking: Shell, server: ModelServer) -> None:
    done = asking.run("prompt", QUESTION)
    assert "── Task, " in done.stdout and QUESTION in done.stdout and "A chair may be returned" in done.stdout
    table, estimate = done.stdout.rpartition("PART ")[2].split("\n\n")
    rows = {line.rsplit(maxsplit=1)[0].strip(): line.split()[-1] for line in table.splitlines()[1:]}
    assert {"Instructions", "Context", "Task", "in all"} <= rows.keys()
    assert estimate.startswith(f"openai-compatible:stub: {rows['in all']} tokens to read and at most 1,024 to write")
    assert "of 8,000: it fits; free" in estimate
    assert not server.calls


def test_a_prompt_leaves_out_what_has_no_room_and_names_it(asking: Shell) -> None:
    done = asking.run("prompt", QUESTION, "--set", "model.window=1500", "--max-tokens", "900")
    assert "Note: no room in the prompt for " in done.stderr
    assert asking.json("prompt", QUESTION, "--set", "model.window=1500", "--max-tokens", "900")["left_out"]


def test_a_prompt_for_programs(asking: Shell) -> None:
    made = asking.json("prompt", QUESTION)
    assert [message["role"] for message in made["messages"]] == ["system", "user"]
    told = made["estimate"]
    assert told["fits"] and told["window"] == 8000 and told["input_tokens"] > 100 and told["cost"] == 0
    assert sum(section["tokens"] for section in made["sections"]) <= told["input_tokens"] + 20
    assert made["abstention"] is None and made["sources"]


def test_the_raw_prompt_is_the_messages_and_nothing_else(shell: Shell) -> None:
    raw = shell.run("prompt", QUESTION, "--raw").stdout
    made = shell.json("prompt", QUESTION)
    texts = [message["text"] for message in made["messages"]]
    assert without_fence(raw) == without_fence("\n\n".join(texts) + "\n")


def without_fence(text: str) -> str:
    """The fence is another one for each prompt."""
    marker = text.partition("<data-")[2].split()[0]
    return text.replace(marker, "")


def test_a_prompt_that_would_not_be_sent_says_so(shell: Shell) -> None:
    done = shell.run("prompt", UNKNOWN)
    assert "It would not be sent: " in done.stderr and "No language model is set: nothing would be sent" in done.stderr
    assert shell.json("prompt", UNKNOWN)["abstention"]["reason"]
    assert "would not be sent" not in shell.run("prompt", QUESTION).stderr


def test_an_error_in_json_is_json(shell: Shell) -> None:
    done = shell.run("ask", "x", "-m", "gpt", "--json", code=2)
    assert json.loads(done.stderr)["error"]["code"] == "UserError" and done.stdout == ""


def test_without_a_model_nothing_of_models_is_loaded(filled: Path) -> None:
    script = (
        "import sys\n"
        "from ragforge.interfaces.cli.main import main\n"
        f"code = main(['-w', {str(filled)!r}, 'ask', 'Who founded the company?', '--ephemeral'])\n"
        "heavy = {'pydantic_ai', 'openai', 'anthropic', 'httpx2', 'genai_prices', 'alembic', 'docx', 'rich.console'}\n"
        "print(code, *sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0"
