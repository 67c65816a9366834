"""`log`, `feedback`, `conversation`, `project rules` and `memory`, `models ls` as a person and a program use them."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ragforge import Ragforge
from ragforge.testing.model_server import ModelServer
from ragforge.testing.records import rollup
from tests import shell as shells
from tests.forge import places_of

FILES = {
    "returns.md": "# Returns\n\n## Chairs\n\nA chair can be sent back within 60 days of its delivery.\n",
    "founders.md": "# Company\n\nThe company was founded in 1987 by Inge and Klaus Petersen in Husum.\n",
    "mattresses.md": "# Mattresses\n\nA mattress can be sent back within 100 nights of its delivery.\n",
}
CHAIR = "When can a chair be sent back?"
NOWHERE = "What is the boiling point of mercury under high pressure?"


class Shell(shells.Shell):
    """With what is asked in Python beside its commands."""

    def ask(self, question: str, **how: Any) -> str:
        """Its id in the log."""
        with self.forge() as forge:
            return forge.ask(question, **how).account.trace_id


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the files, to be copied."""
    folder = tmp_path_factory.mktemp("filled")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    with Ragforge.open(folder / "workspace") as forge:
        forge.create_project("default", embedder="wordllama")
        forge.add([folder / name for name in FILES])
    return folder / "workspace"


@pytest.fixture
def shell(filled: Path, swift_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    for name in ("VISUAL", "EDITOR", "OLLAMA_HOST", "OLLAMA_BASE_URL", "OPENAI_API_KEY", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    shutil.copytree(filled, swift_path / "workspace")
    return Shell(swift_path / "workspace", capsys)


# -- log


def test_the_log_lists_the_newest_first_and_shows_one(shell: Shell) -> None:
    empty = shell.run("log", "ls")
    assert empty.stdout == "" and "Nothing was asked yet. Next: ragforge ask -w" in empty.stderr
    ids = [shell.ask(question) for question in (CHAIR, "Who founded the company?", NOWHERE)]
    listed = shell.json("log", "ls")
    assert listed["on"] is True and [each["id"] for each in listed["questions"]] == ids[::-1]
    lines = shell.run("log", "ls").stdout.splitlines()
    assert lines[0].split() == ["ID", "WHEN", "KIND", "QUESTION", "MARK", "MS", "MODEL", "TOKENS", "COST"]
    assert [line.split()[0] for line in lines[1:]] == [id[:8] for id in ids[::-1]]
    assert "abstention" in lines[1] and NOWHERE in lines[1] and "none" in lines[1]
    newest = shell.run("log", "ls", "--limit", "1")
    assert len(newest.stdout.splitlines()) == 2 and "--limit shows more" in newest.stderr
    assert "Nothing was asked since then." in shell.run("log", "ls", "--since", "2999-01-01").stderr
    assert len(shell.json("log", "ls", "--since", "1h")["questions"]) == 3

    shown = shell.run("log", "show", ids[0][:6]).stdout
    assert CHAIR in shown and ids[0] in shown and "cites        returns.md" in shown
    assert any(line.split()[2:] == ["returns.md", "Returns"] for line in shown.splitlines())
    told = shell.json("log", "show", "last")
    assert told["question"]["id"] == ids[2] and told["question"]["cited"] == []
    missing = shell.run("log", "show", "zzz", code=5)
    assert "no question in the log 'zzz'" in missing.stderr and "ragforge log ls -w" in missing.stderr


def test_a_question_outlives_its_files(shell: Shell) -> None:
    shell.ask(CHAIR)
    shell.run("rm", "returns.md", "--yes")
    shown = shell.run("log", "show", "last").stdout
    assert "(no longer there)" in shown and "1 file that left the project" in shown and "Chairs" not in shown
    chunk, *_ = shell.json("log", "show", "last")["chunks"]
    assert set(chunk) == {"chunk", "score"}


def test_a_log_that_is_off_says_so(shell: Shell) -> None:
    shell.ask(CHAIR)
    off = shell.run("log", "ls", "--set", "ask.log=false")
    assert CHAIR in off.stdout and "The log is off (ask.log is false)" in off.stderr
    assert shell.json("log", "ls", "--set", "ask.log=false")["on"] is False
    assert "off" not in shell.run("log", "ls").stderr


def test_costs_are_summed_up_by_what_is_asked_for(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.host)
        for arguments in ((), ("--agent", "librarian")):
            shell.run("ask", CHAIR, *arguments, "--set", "model.name=ollama:llama3.2", "--set", "model.window=9000")
    shell.ask(CHAIR)
    told = shell.json("log", "cost")
    assert {each["name"]: each["questions"] for each in told["spent"]} == {"": 1, "ollama:llama3.2": 2}
    assert told["total"]["questions"] == 3 and told["total"]["cost"] == 0 and told["total"]["input_tokens"] > 0
    lines = [line.split() for line in shell.run("log", "cost", "--by", "agent").stdout.splitlines()]
    assert lines[0] == ["AGENT", "QUESTIONS", "READ", "WRITTEN", "COST"]
    assert [line[:2] for line in lines[1:]] == [["none", "2"], ["librarian", "1"], ["total", "3"]]
    assert [line[0] for line in map(str.split, shell.run("log", "cost", "--by", "profile").stdout.splitlines())] == [
        "PROFILE", "none", "cheap", "total",
    ]  # fmt: skip
    assert shell.json("log", "cost", "--by", "day")["spent"][0]["name"] == f"{datetime.now(UTC):%Y-%m-%d}"
    assert "'--by': 'moon' is not one of" in shell.run("log", "cost", "--by", "moon", code=2).stderr


def test_a_model_without_a_price_is_said_to_be_left_out(shell: Shell) -> None:
    shell.ask(CHAIR)
    with shell.forge() as forge:
        known = forge.project("default").id
        paid = replace(forge.logged("last"), id="f" * 32, model="openai-compatible:x", input_tokens=100, cost=None)
        with forge._parts.catalog.write() as c:
            c.log.add(forge._scope, known, paid)
    told = shell.run("log", "cost")
    assert "price unknown" in told.stdout
    assert "1 question went to a model whose price is not known" in told.stderr


def test_old_questions_are_removed(shell: Shell) -> None:
    shell.ask(CHAIR)
    refused = shell.run("log", "rm", "--before", "0h", code=2)
    assert "nobody is here to ask" in refused.stderr
    assert shell.run("log", "rm", "--before", "90d").stderr.startswith("Nothing to remove: nothing was asked before ")
    assert shell.json("log", "rm", "--before", "90d")["removed"] == 0
    assert "would remove 0 questions" in shell.run("log", "rm", "--before", "90d", "--dry-run").stdout
    assert "would remove 1 question asked" in shell.run("log", "rm", "--before", "0h", "--dry-run").stdout
    assert "Nothing to remove" in shell.run("log", "rm", "--before", "12w", "--yes").stderr
    assert shell.json("log", "rm", "--before", "0d", "--yes")["removed"] == 1
    assert shell.json("log", "ls")["questions"] == []
    wrong = shell.run("log", "rm", "--before", "soon", code=2).stderr
    assert "'soon' is neither 12h, 7d or 2w nor a date" in wrong
    assert "neither" in shell.run("log", "ls", "--since", "99999999999w", code=2).stderr


# -- feedback


def questions(shell: Shell) -> dict[str, tuple[str, set[str], bool]]:
    """The set `feedback`: text, names of the wanted files, and whether there is an answer, by id."""
    with shell.forge() as forge:
        names = {document.id: document.name for document in forge.documents()}
        with forge._parts.catalog.read() as c:
            known = c.evaluations.questions(forge._scope, forge.project("default").id, "feedback")
    return {each.id: (each.text, {names[id] for id in each.documents}, each.answerable) for each in known}


def test_a_good_answer_becomes_a_question_to_measure_by(shell: Shell) -> None:
    id = shell.ask(CHAIR)
    told = shell.run("feedback", "last", "good", "--note", "short and right").stderr
    assert f"Marked {id[:8]} good. In the set feedback, the question wants returns.md. Next: ragforge eval run" in told
    assert questions(shell) == {id: (CHAIR, {"returns.md"}, True)}
    shown = shell.run("log", "show", "last").stdout
    assert "good — short and right" in shown
    assert shell.json("eval", "run", "feedback")["run"]["metrics"]["hit@1"] == 1
    (result,) = shell.json("eval", "show", "last")["results"]
    assert [each["name"] for each in result["wanted"]] == ["returns.md"], "by its name, though it is kept by its id"


def test_a_bad_answer_is_marked_and_may_say_what_should_have_been_found(shell: Shell) -> None:
    id = shell.ask(CHAIR)
    told = shell.run("feedback", id[:8], "bad").stderr
    assert "nobody said which files are right. Next: ragforge feedback -w" in told and "--expected FILE" in told
    assert shell.json("eval", "ls")["sets"] == []
    shell.run(
        "feedback", "last", "bad", "--expected", "mattresses.md", "--expected", "founders*", "--note", "wrong file"
    )
    assert questions(shell) == {id: (CHAIR, {"mattresses.md", "founders.md"}, True)}
    assert "no file 'gone.md'" in shell.run("feedback", "last", "bad", "--expected", "gone.md", code=5).stderr


def test_a_second_mark_replaces_the_first(shell: Shell) -> None:
    first, second = shell.ask(CHAIR), shell.ask("Who founded the company?")
    for id in (first, second):
        shell.run("feedback", id, "good", "--note", "yes")
    shell.run("feedback", first, "bad", "--expected", "founders.md")
    assert questions(shell) == {
        first: (CHAIR, {"founders.md"}, True),
        second: ("Who founded the company?", {"founders.md"}, True),
    }
    assert list(questions(shell)) == [first, second], "in its place"
    shell.run("feedback", first, "bad")
    assert list(questions(shell)) == [second]
    entry = shell.json("log", "show", first)["question"]
    assert (entry["feedback"], entry["note"]) == ("bad", "")


def test_a_good_abstention_is_a_question_without_an_answer(shell: Shell) -> None:
    id = shell.ask(NOWHERE)
    assert "has no answer in the files" in shell.run("feedback", "last", "good").stderr
    assert questions(shell) == {id: (NOWHERE, set(), False)}


def test_a_follow_up_is_kept_as_it_was_searched(shell: Shell) -> None:
    with shell.forge() as forge:
        talk = forge.begin_conversation("returns").id
        forge.ask(CHAIR, conversation=talk)
        id = forge.ask("And a mattress?", conversation=talk).account.trace_id
    shell.run("feedback", "last", "good")
    text, files, _ = questions(shell)[id]
    assert text != "And a mattress?" and "mattress" in text and "sent back" in text and files == {"mattresses.md"}


def test_feedback_that_means_nothing_is_refused(shell: Shell) -> None:
    assert "no question in the log 'last'" in shell.run("feedback", "last", "good", code=5).stderr
    shell.run("ask", f"Only returns.md: {CHAIR}", "--lock", "--set", "model.name=openai-compatible:x",
              "--set", "model.base_url=http://127.0.0.1:1/v1", code=7)  # fmt: skip
    assert shell.json("log", "show", "last")["question"]["kind"] == "error"
    assert "there was no answer to that question" in shell.run("feedback", "last", "bad", code=2).stderr
    assert shell.json("log", "show", "last")["question"]["feedback"] == ""
    shell.ask(CHAIR)
    assert "'great' is not one of 'good', 'bad'" in shell.run("feedback", "last", "great", code=2).stderr


# -- conversations


@pytest.fixture
def talk(shell: Shell) -> str:
    with shell.forge() as forge:
        id = forge.begin_conversation("About \x1b[31mreturns").id
        for question in (CHAIR, "And a mattress?", "Who founded the company?"):
            forge.ask(question, conversation=id)
        forge.mark_turn(forge.turns(id)[2].id)
    return id


def test_conversations_are_listed_and_shown(shell: Shell, talk: str) -> None:
    (listed,) = shell.json("conversation", "ls")["conversations"]
    assert (listed["id"], listed["turns"]) == (talk, 3)
    assert "About \\x1b[31mreturns" in shell.run("conversation", "ls").stdout
    shown = shell.run("conversation", "show", talk[:6]).stdout
    assert f"1  {CHAIR}" in shown and "60 days" in shown
    assert "2  And a mattress?" in shown and "searched as: When can a mattress be sent back?" in shown
    assert "3  Who founded the company?  just now, marked" in shown and "\x1b" not in shown
    told = shell.json("conversation", "show", "last")
    assert [turn["importance"] for turn in told["turns"]] == [0, 0, 1] and told["rollups"] == []
    assert "ragforge conversation ls -w" in shell.run("conversation", "show", "zzz", code=5).stderr


def test_a_conversation_gets_another_title(shell: Shell, talk: str) -> None:
    said = shell.run("conversation", "rename", talk[:6], "Sending \x1b[31mback")
    assert said.stdout == "" and said.stderr == f"{talk[:8]} is now called “Sending \\x1b[31mback”\n"
    told = shell.json("conversation", "rename", "last", "Sending back")["conversation"]
    (listed,) = shell.json("conversation", "ls")["conversations"]
    assert told == listed and (listed["id"], listed["title"], listed["turns"]) == (talk, "Sending back", 3)
    empty = shell.run("conversation", "rename", "last", " ", code=2).stderr
    assert "the title is empty" in empty and "say in a few words" in empty
    assert "1,001 characters" in shell.run("conversation", "rename", "last", "x" * 1_001, code=2).stderr
    assert "no conversation 'zzz'" in shell.run("conversation", "rename", "zzz", "new", code=5).stderr


def test_a_conversation_is_written_to_a_file(shell: Shell, talk: str) -> None:
    printed = shell.run("conversation", "export", "last").stdout
    assert printed.startswith("# About \\x1b\\[31mreturns\n\nBegun ") and "\x1b" not in printed
    assert f"## {CHAIR}\n\n" in printed and "## Who founded the company?" in printed
    assert '- [1] returns.md, Returns > Chairs: "A chair can be sent back within 60 days' in printed.replace("\\>", ">")
    file = shell.workspace.parent / "talk.md"
    file.write_text("what was there before")
    said = shell.run("conversation", "export", talk[:6], "--out", str(file))
    assert said.stdout == "" and said.stderr == f"Wrote {file}\n"
    told = shell.json("conversation", "export", "last", "-o", str(file))
    assert told["file"] == str(file) and told["conversation"]["id"] == talk and told["text"] == file.read_text()
    assert file.read_text().replace("\x1b", "\\x1b").rstrip("\n") == printed.rstrip("\n")
    assert shell.json("conversation", "export", "last")["file"] is None
    assert "end the name with .md" in shell.run("conversation", "export", "last", "-o", "talk.docx", code=2).stderr
    missing = shell.workspace.parent / "nowhere" / "talk.md"
    assert "there is no folder" in shell.run("conversation", "export", "last", "-o", str(missing), code=2).stderr
    assert "no conversation 'zzz'" in shell.run("conversation", "export", "zzz", code=5).stderr


def test_a_rollup_stands_before_the_turns_it_tells_of(shell: Shell, talk: str) -> None:
    with shell.forge() as forge, forge._parts.catalog.write() as c:
        made = rollup(talk, 1, 2, title="Sending back", text="Chairs 60 days, mattresses 100 nights.", used=2)
        c.conversations.roll(forge._scope, forge.projects()[0].id, made, "f", None)
    shown = shell.run("conversation", "show", "last").stdout
    summary = shown.index("── turns 1 to 2 are remembered as: Sending back, recalled 2 times")
    assert summary < shown.index("Chairs 60 days, mattresses 100 nights.") < shown.index(f"1  {CHAIR}")
    assert shown.count("summed up above") == 2


def test_turns_and_conversations_are_removed_for_good(shell: Shell, talk: str) -> None:
    assert "has no turn 7" in shell.run("conversation", "rm", "last", "--turn", "7", "--yes", code=5).stderr
    assert "nobody is here to ask" in shell.run("conversation", "rm", "last", code=2).stderr
    assert "would remove turns 2, 3 of" in shell.run(
        "conversation", "rm", "last", "--turn", "2", "--turn", "3", "--dry-run"
    ).stdout  # fmt: skip
    removed = shell.json("conversation", "rm", "last", "--turn", "3", "--yes")["removed"]
    assert removed == {"conversation": talk, "turns": [3]}
    assert [turn["number"] for turn in shell.json("conversation", "show", "last")["turns"]] == [1, 2]
    with shell.forge() as forge:
        forge.remove_turn(forge.turns(talk)[1].id)
        assert places_of(b"When can a mattress be sent back?", shell.workspace) == []
    assert "with 1 turn" in shell.run("conversation", "rm", talk[:5], "--yes").stderr
    assert shell.json("conversation", "ls")["conversations"] == []
    assert "There are no conversations. Next: ragforge chat -w" in shell.run("conversation", "ls").stderr


# -- Hard Rules and Project Memory


def written(shell: Shell, name: str, text: str) -> str:
    file = shell.workspace.parent / name
    file.write_text(text)
    return str(file)


def test_rules_are_written_in_versions(shell: Shell) -> None:
    nothing = shell.run("project", "rules")
    assert nothing.stdout == "" and "Hard Rules: nothing is written. Next: ragforge project rules -w" in nothing.stderr
    first = shell.run("project", "rules", "--file", written(shell, "a.md", "Be brief.\n")).stderr
    assert "Hard Rules of default, version 1: " in first and " tokens in every prompt" in first
    shell.run("project", "rules", "--file", written(shell, "b.md", "Be kind.\n"))
    assert shell.run("project", "rules").stdout == "Be kind.\n"
    assert shell.run("project", "rules", "--version", "1").stdout == "Be brief.\n"
    assert [each["version"] for each in shell.json("project", "rules", "--versions")["versions"]] == [2, 1]
    assert "Be brief." in shell.run("project", "rules", "--versions").stdout.splitlines()[-1]
    restored = shell.json("project", "rules", "--restore", "1")
    assert restored["changed"] is True and restored["text"]["version"] == 3 and restored["tokens"] > 0
    assert "version 3 says the same" in shell.run("project", "rules", "--restore", "1").stderr
    assert shell.run("project", "memory").stdout == "", "the other text is another one"


def test_what_is_written_goes_into_the_prompt(shell: Shell) -> None:
    shell.run("project", "rules", "--file", written(shell, "a.md", "Never promise a refund."))
    shell.run("project", "memory", "--file", written(shell, "b.md", "We sell furniture in Husum."))
    with shell.forge() as forge:
        text = "\n".join(message.text for message in forge.prompt(CHAIR).prompt.messages)
    assert text.index("Never promise a refund.") < text.index("We sell furniture in Husum.")


def test_memory_comes_from_standard_input_and_from_an_editor(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.run("project", "memory", "--file", "-", stdin="Wir verkaufen Möbel.\n")
    monkeypatch.setenv("EDITOR", "sed -i s/verkaufen/bauen/")
    shell.run("project", "memory", "--edit")
    assert shell.run("project", "memory").stdout == "Wir bauen Möbel.\n"
    monkeypatch.setenv("EDITOR", "true")
    assert "Nothing changed: version 2 says the same" in shell.run("project", "memory", "--edit").stderr
    unwritten = shell.run("project", "rules", "--edit").stderr
    assert unwritten == "Nothing changed: it is still empty\n"
    assert shell.json("project", "memory", "--restore", "0")["text"]["text"] == ""


def test_texts_that_cannot_be_taken_are_refused(shell: Shell) -> None:
    long = shell.run("project", "rules", "--file", written(shell, "long.md", "x" * 300_000), code=2).stderr
    assert "300 KB is over the limit of 200 KB" in long and "put long material into a file" in long
    (shell.workspace.parent / "bad.md").write_bytes(b"\xff\xfe")
    assert (
        "it is not UTF-8" in shell.run("project", "rules", "--file", f"{shell.workspace.parent}/bad.md", code=2).stderr
    )
    assert "there is no file nowhere" in shell.run("project", "rules", "--file", "nowhere", code=5).stderr
    assert "no version 4 of the Hard Rules" in shell.run("project", "rules", "--version", "4", code=5).stderr
    both = shell.run("project", "rules", "--edit", "--restore", "1", code=2).stderr
    assert "--edit and --restore do not go together" in both
    assert shell.json("project", "rules")["text"]["version"] == 0


def test_a_text_that_fills_the_models_window_is_said(shell: Shell) -> None:
    small = ("--set", "model.name=openai-compatible:x", "--set", "model.base_url=http://127.0.0.1:1/v1")
    said = shell.run(
        "project", "rules", "--file", written(shell, "a.md", "Be brief. " * 60), *small, "--set", "model.window=200"
    ).stderr
    assert "openai-compatible:x reads 200 tokens, and answers need room there too" in said


# -- models


def test_language_models_are_listed_without_a_call_or_a_key(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = shell.run("models", "ls")
    assert (
        "No language model is chosen" in plain.stderr and "Ollama does not answer at http://127.0.0.1" in plain.stderr
    )
    assert "Next: set model.name in ragforge.toml, such as ollama:llama3.2 or openai:gpt-5-mini" in plain.stderr
    with ModelServer() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.host)
        assert (
            "Next: set model.name in ragforge.toml, such as ollama:llama3.2:latest" in shell.run("models", "ls").stderr
        )
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hidden")
    chosen = ("--set", "model.name=openai:gpt-4o-mini", "--set", "model.premium=anthropic:claude-haiku-4-5",
              "--set", "model.cheap=ollama:qwen3:8b", "--set", "model.balanced=ollama:nothing")  # fmt: skip
    with ModelServer() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.host)
        shown, told = shell.run("models", "ls", *chosen), shell.json("models", "ls", *chosen)
        findings = {each["subject"]: each for each in shell.json("doctor", *chosen, code=8)["findings"]}
        assert server.calls == [], "nobody was asked to write"
    lines = {line.split()[0]: line for line in shown.stdout.splitlines() if ":" in line.split("  ")[0]}
    assert "0.15 in, 0.6 out" in lines["openai:gpt-4o-mini"] and "OPENAI_API_KEY is set" in lines["openai:gpt-4o-mini"]
    assert "it needs a key: set ANTHROPIC_API_KEY" in lines["anthropic:claude-haiku-4-5"]
    assert "4,096" in lines["ollama:qwen3:8b"] and "free" in lines["ollama:qwen3:8b"]
    assert "ollama pull nothing" in lines["ollama:nothing"] and "ollama:llama3.2:latest" in lines
    assert told["ollama"]["models"] == 2
    ok = {name: each["ok"] for name, each in findings.items() if name.startswith(("language model", "Ollama"))}
    assert ok == {
        "language model openai:gpt-4o-mini": True,
        "language model ollama:qwen3:8b": True,
        "language model ollama:nothing": False,
        "language model anthropic:claude-haiku-4-5": False,
        "Ollama": True,
    }
    assert findings["language model anthropic:claude-haiku-4-5"]["hint"] == "set ANTHROPIC_API_KEY"
    assert "sk-hidden" not in shown.stdout + shown.stderr + json.dumps(told) + json.dumps(findings)


def test_doctor_is_content_without_a_language_model(shell: Shell) -> None:
    findings = {each["subject"]: each for each in shell.json("doctor")["findings"]}
    assert findings["language model"]["ok"] and "answers quote the documents" in findings["language model"]["detail"]
    assert findings["Ollama"]["ok"] and "does not answer" in findings["Ollama"]["detail"]
    wrong = {each["subject"]: each for each in shell.json("doctor", "--set", "model.name=gpt5", code=8)["findings"]}
    assert "no language model is called 'gpt5'" in wrong["language model gpt5"]["detail"]


def test_debug_tells_what_was_counted(shell: Shell) -> None:
    assert "Counted: files 0, chunks 0, embedding calls 1, searches 1" in shell.run("search", "chair", "--debug").stderr
    assert "Counted" not in shell.run("search", "chair").stderr


def test_the_editors_own_file_is_gone_afterwards(shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "editor"
    script.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/seen\necho "Be exact." > "$1"\n')
    script.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(script))
    shell.run("project", "rules", "--edit")
    assert shell.run("project", "rules").stdout == "Be exact.\n"
    file = (tmp_path / "seen").read_text().strip()
    assert os.path.basename(file) == "hard-rules.md" and not os.path.exists(file)
