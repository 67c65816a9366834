"""`ragforge discover` as a person at a terminal and a script use it."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge.interfaces.cli.common import Common
from ragforge.testing.model_server import SERVER_ERROR, ModelServer
from tests.acceptance.test_cli_chat import Terminal, lines
from tests.shell import Shell, bare_environment, fill_workspace

FILES = {
    "returns.md": "# Returns\n\nA chair may be returned within sixty days of its delivery.\n\n"
    "The returns memo of 2023 says thirty days.\n",
    "founders.md": "# Company\n\nThe company was founded in 1987 by Inge and Klaus Petersen in Husum.\n",
}
WHO = "We are Nordlicht, a furniture maker in Husum. Returns have grown since spring. I lead customer service."
GUESS = "Customers are told different windows. I think most cases come from the old memo."
REFUTES = "A1 is wrong: we counted, only 5 of 40 cases mention the memo."
COMMANDS = ("register", "document", "points", "progress", "questions", "probe", "mode", "why", "undo", "help", "quit")


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
    with ModelServer(reply="Noted.") as server:
        yield server


def with_model(server: ModelServer) -> tuple[str, ...]:
    told = {"model.base_url": server.base_url, "model.window": "32000"}
    return (
        "-m",
        "openai-compatible:stub",
        *(part for key, value in told.items() for part in ("--set", f"{key}={value}")),
    )


# -- an interview through a pipe


def test_G_lines_of_a_pipe_are_said_one_by_one_and_the_next_time_goes_on(shell: Shell) -> None:
    done = shell.run("discover", "--title", "Returns", stdin=lines(WHO, "", GUESS))
    opening, _, replies = done.stdout.partition("\n\n")
    assert opening.startswith("We will work out the problem together")
    assert "**Problem framing.**" in replies and "1. " in replies and "Assumption A1: " in replies
    assert done.stderr.startswith("“Returns” in default. Rules ask, without a language model. /help lists")
    assert "\nProblem · Problem framing · 0 of 7 probes done\n" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("Problem · ") and done.stderr.endswith(" · 1 assumption\n")
    more = shell.run("discover", stdin=lines("continue"))
    assert "going on after 2 turns" in more.stderr and "We will work out" not in more.stdout
    with shell.forge() as forge:
        [talk] = forge.discovery.all()
        assert (talk.title, talk.turns) == ("Returns", 3)
        assert [turn.question for turn in forge.discovery.turns()] == [WHO, GUESS, "continue"]


def test_G_an_interview_in_which_nothing_was_said_is_not_kept(shell: Shell) -> None:
    quiet = shell.run("discover", "--title", "Chairs", stdin=lines("/help", "/register", "/quit", "never read"))
    assert quiet.stderr.endswith("Nothing was said: the interview “Chairs” is not kept.\n")
    shell.run("discover", stdin=lines(WHO, "/undo"))
    shell.run("discover", "say", "hello", "--probe", "nope", code=2)
    assert shell.json("discover", "ls") == {"interviews": []}
    assert "There are no interviews. Next: ragforge discover -w " in shell.run("discover", "ls").stderr


def test_G_another_one_begins_beside_it(shell: Shell) -> None:
    shell.run("discover", "--title", "One", stdin=lines(WHO))
    begun = shell.run(
        "discover", "--new", "--title", "Two", "--mode", "solution", stdin=lines("A page with the rules.")
    )
    assert begun.stderr.splitlines()[-1].startswith("Solution · ")
    two, one = shell.json("discover", "ls")["interviews"]
    assert (one["title"], two["title"]) == ("One", "Two")
    assert "“One” in default, going on after 1 turn" in shell.run("discover", "--id", one["id"][:6], stdin="").stderr
    refused = shell.run("discover", "--title", "Three", stdin="", code=2).stderr
    assert "--title is for an interview that is begun" in refused and "add --new" in refused
    assert "do not go together" in shell.run("discover", "--new", "--id", one["id"], stdin="", code=2).stderr
    assert (
        shell.run("discover", "--mode", "problem", stdin="").stderr
        and shell.json("discover", "show")["interview"]["mode"] == "problem"
    )


def test_G_a_workspace_and_a_project_begin_with_what_is_said(shell: Shell, tmp_path: Path) -> None:
    there = tmp_path / "fresh"
    done = shell.run("discover", "-w", str(there), "-p", "idea", stdin=lines(WHO))
    assert "Made the workspace" in done.stderr and "Made project idea" in done.stderr
    assert shell.json("discover", "org", "-w", str(there), "-p", "idea")["org_context"].startswith("We are Nordlicht")
    nobody = shell.run("discover", "show", "-w", str(there), code=5).stderr
    assert "There is no interview here yet" in nobody and "-p for another project: idea" in nobody
    shell.run("discover", "say", "hi", "--id", "abc", "-p", "typo", code=5)
    assert "typo" not in shell.run("project", "ls").stdout


# -- its commands


def test_G_commands_show_what_is_known(shell: Shell) -> None:
    shell.run("discover", "--title", "Returns", stdin=lines(WHO, GUESS))
    shell.run("discover", "assume", "Training will fix it", "--depends-on", "A1", "--impact", "high")
    typed = lines(REFUTES, "/register", "/progress", "/questions", "/document", "/points", "/why")
    done = shell.run("discover", stdin=typed)
    assert done.stderr.splitlines()[-1].endswith(" · 2 assumptions (1 refuted, 1 shaken)")
    register = done.stdout.partition("ID  STATUS ")[2].splitlines()
    assert register[1].split()[:5] == ["A1", "refuted", "medium", "medium", "–"]
    assert "turn 3: A1 is wrong" in register[2]
    assert register[3].split()[:5] == ["A2", "shaken", "medium", "high", "A1"]
    assert "Problem framing  framing  " in done.stdout and "  ✓ " in done.stdout and "← asked now" in done.stdout
    assert "Not answered." in done.stdout and "Problem brief: Returns" in done.stdout
    assert "\nBackground  background\n  P1  We are Nordlicht" in done.stdout
    why = done.stdout.partition("\ndecided   problem, ")[2]
    assert "(by rules)" in why and "Core instructions " in why and "✓ update_assumption: A1 is refuted" in why


def test_G_why_tells_after_a_break_what_is_kept_of_the_last_turn(shell: Shell) -> None:
    assert "The document has no points yet." in shell.run("discover", stdin=lines("/points")).stderr
    shell.run("discover", stdin=lines(WHO, GUESS))
    later = shell.run("discover", stdin=lines("/why"))
    (turn, *_), (decided, *_), (by, *_), (summary, *_) = (
        [line for line in later.stdout.splitlines() if line.startswith(f"{name} ")]
        for name in ("turn", "decided", "asked by", "summary")
    )
    assert (turn.split()[1], by.split()[2:]) == ("2,", ["rules"]) and decided.split()[1] == "problem,"
    assert len(summary.split()) > 3 and "That is what is kept of it" in later.stderr
    first, why = shell.json_lines("discover", stdin=lines("/why"))
    assert why == {"last": first["last"]} and why["last"]["number"] == 2 and why["last"]["model"] is None
    back = shell.run("discover", stdin=lines("continue", "/undo", "/why"))
    assert "\nturn      2, " in back.stdout and "Core instructions" not in back.stdout


def test_G_a_probe_and_a_mode_are_chosen(shell: Shell) -> None:
    typed = lines(WHO, "/probe", "/probe zzz", "/probe suc", "continue", "/mode nope", "/mode solution", "continue")
    done = shell.run("discover", stdin=typed, code=2)
    assert "**Constraints and success.**" in done.stdout and "**Outcome and scope.**" in done.stdout
    assert "Error: no probe is named" in done.stderr and "Error: no probe is called 'zzz'" in done.stderr
    assert "there are framing, people, stakeholders" in done.stderr and "there are problem, solution" in done.stderr
    assert "“Constraints and success” is asked after what you say next" in done.stderr


def test_G_what_fails_does_not_end_it_and_a_pipe_learns_the_first_code(shell: Shell) -> None:
    done = shell.run(
        "discover", stdin=lines("/why", "/nothing", "/undo", " /slashed is said", "/undo", "/undo"), code=2
    )
    assert "Error: nothing was said yet" in done.stderr and "Error: there is no command /nothing" in done.stderr
    assert done.stderr.count("Error: there is no turn to take back") == 2 and "Turn 1 is taken back." in done.stderr
    assert ", ".join(f"/{name}" for name in COMMANDS) in done.stderr
    assert "a message that begins with / needs a space before it" in done.stderr


def test_G_programs_get_a_line_for_the_interview_and_for_each_line(shell: Shell) -> None:
    typed = lines(
        WHO, GUESS, "/register", "/document", "/points", "/progress", "/questions", "/why", "/undo", "/help",
        "/mode solution",
    )  # fmt: skip
    first, one, two, register, document, points, progress, questions, why, undone, help = shell.json_lines(
        "discover", stdin=typed
    )
    assert points["points"] == two["state"]["points"]
    assert first["interview"]["title"] == "Interview" and first["opening"] and first["last"] is None
    assert first["interview"]["assumptions"] == {"all": 0, "open": 0, "confirmed": 0, "refuted": 0, "shaken": 0}
    assert (one["turn"]["number"], two["turn"]["number"]) == (1, 2) and one["interview"] == first["interview"]["id"]
    assert one["account"]["decision"]["probe"] == one["state"]["probe"] == "framing"
    assert [each["id"] for each in register["assumptions"]] == ["A1"] and "Problem brief: Interview" in document["text"]
    assert len(progress["probes"]) == 7 and set(progress["probes"][0]["details"][0]) >= {"key", "text", "met", "turn"}
    assert questions["open_questions"] and why["decision"]["by"] is None and why["sections"]
    assert undone["undone"] == 2 and undone["state"]["assumptions"] == [] and set(help["commands"]) == set(COMMANDS)
    again = shell.json("discover", stdin="")
    assert again["opening"] is None and again["last"]["message"] == WHO


def test_G_bytes_that_are_no_text_are_no_fault(shell: Shell) -> None:
    shell.run("discover", stdin="We sell \udcff\udcfe chairs and \x1b[31mred\x1b[0m lamps.\r\n")
    assert "\x1b" not in shell.run("discover", "show").stdout


# -- one turn for scripts


def test_G_say_is_one_turn_with_all_that_is_known_of_it(shell: Shell) -> None:
    done = shell.json("discover", "say", WHO, "--title", "Returns")
    assert set(done) == {"interview", "turn", "state", "account"}
    assert done["turn"]["message"] == WHO and done["turn"]["model"] is None
    assert done["turn"]["asked_at"].endswith(("Z", "+00:00"))
    assert [each["section"] for each in done["state"]["points"]] and done["state"]["turn"] == 1
    assert {each["text"] for each in done["state"]["pending"]} <= {each["text"] for each in done["state"]["asked"]}
    account = done["account"]
    assert account["searches"] and account["phase_b_tokens"] and account["usage"]["calls"] == 0 and account["changes"]
    more = shell.json("discover", "say", "-", "--probe", "impact", "--turn", "2", stdin="Forty cases\na week.\n")
    assert (more["turn"]["message"], more["turn"]["probe"]) == ("Forty cases\na week.", "impact")
    people = shell.run("discover", "say", "continue", "--mode", "solution")
    assert people.stdout.startswith("**Outcome and scope.**") and people.stderr.startswith(
        "Solution · Outcome and scope"
    )


def test_G_a_message_may_begin_with_a_dash(shell: Shell) -> None:
    told = "- Returns have grown since spring."
    done = shell.run("--json", "discover", "say", "--title", "Lists", "--", told)
    assert json.loads(done.stdout)["turn"]["message"] == told
    assert shell.json("discover", "say", "-", stdin=f"{told}\n- Support is swamped.\n")["turn"]["number"] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "says", "next_step"),
    [
        (["say", "- chairs break"], 2, "No such option: -", "ragforge discover say -- TEXT"),
        (["say", "-chairs break", "--turn", "2"], 2, "No such option: -c", "write -- before a text"),
        (["say", "hi", "--prob", "impact"], 2, "No such option: --prob", "ragforge discover say --help"),
        (["edit", "P1"], 2, "nothing to change", "--section"),
        (["edit", "P99", "x"], 5, "no point 'P99'", ""),
        (["edit", "P1", " "], 2, "the point says nothing", "one sentence"),
        (["edit", "P1", "--section", "lunch"], 2, "no section 'lunch'", "background"),
        (["forget", "P1", "P99"], 5, "no point 'P99'", ""),
        (["forget", "A9", "P1"], 5, "no assumption 'A9'", ""),
        (["forget", " "], 2, "is no assumption and no point", "ragforge discover points"),
        (["say", ""], 2, "the message is empty", "continue"),
        (["say", " ", "\t"], 2, "the message is empty", "continue"),
        (["say", "hi", "--id", "zzz"], 5, "no interview 'zzz'", "ragforge discover ls"),
        (["say", "hi", "--probe", "nope"], 2, "no probe is called 'nope'", "framing"),
        (["say", "hi", "--mode", "nope"], 2, "no mode is called 'nope'", "problem, solution"),
        (["say", "hi", "--turn", "1"], 2, "this cannot be turn 1", "arrived before"),
        (["say", "hi", "--model", "nope:x"], 2, "no provider is called 'nope'", ""),
        (["show", "zzz"], 5, "no interview 'zzz'", "ragforge discover ls"),
        (["document", "--mode", "nope"], 2, "no mode is called 'nope'", "problem, solution"),
        (["document", "--out", "brief.txt"], 2, "its kind is not known", ".md or .docx"),
        (["revise", "A9", "--status", "open"], 5, "no assumption 'A9'", ""),
        (["revise", "A1"], 2, "nothing to change", "ragforge discover revise"),
        (["revise", "A1", "--status", "shaken"], 2, "'shaken' is not one of", "--help"),
        (["assume", " "], 2, "the assumption says nothing", "one sentence"),
        (["assume", "A thing", "--depends-on", "A9"], 5, "no assumption 'A9'", ""),
        (["point", "nowhere", "x"], 2, "no section 'nowhere'", "background"),
        (["forget", "Q1"], 2, "is no assumption and no point", "ragforge discover points"),
        (["forget", "P99"], 5, "no point 'P99'", ""),
        (["rename", "last", " "], 2, "the title is empty", ""),
        (["org", "x", "--file", "y"], 2, "TEXT and --file do not go together", ""),
        (["org", "--file", "nowhere"], 5, "there is no file nowhere", ""),
        (["knowledge", "nope"], 2, "no mode is called 'nope'", "problem, solution"),
        (["knowledge", "--out", "x.toml"], 2, "no mode is named", "ragforge discover knowledge"),
        (["rm", "last"], 2, "nobody is here to ask", "--yes"),
        (["--id", "x", "ls"], 2, "--id stands before ls", "ragforge discover"),
        (["nothing"], 2, "No such command 'nothing'", "ragforge discover --help"),
        (["--id"], 2, "Option '--id' requires an argument", "ragforge discover --help"),
    ],
)
def test_G_a_mistake_is_one_sentence_a_next_step_and_an_exit_code(
    shell: Shell, arguments: list[str], code: int, says: str, next_step: str
) -> None:
    said = shell.json("discover", "say", GUESS)
    done = shell.run("discover", *arguments, code=code)
    error, step = done.stderr.splitlines()
    assert done.stdout == "" and error.startswith("Error: ") and says in error
    assert step.startswith("Next: ") and next_step in step
    shown = shell.json("discover", "show")
    assert len(shown["turns"]) == 1 and shown["state"] == said["state"]
    told = json.loads(shell.run("--json", "discover", *arguments, code=code).stderr)["error"]
    assert told["message"] and told["hint"]


# -- corrections


def test_G7_a_circle_is_refused_and_what_rests_on_the_refuted_is_shaken(shell: Shell) -> None:
    shell.json("discover", "say", WHO)
    first = shell.json("discover", "assume", "The memo", "causes it", "--impact", "high")["assumption"]
    assert (first["id"], first["statement"], first["confidence"], first["impact"]) == (
        "A1", "The memo causes it", "medium", "high",
    )  # fmt: skip
    shell.json("discover", "assume", "Training fixes it", "--depends-on", "a1")
    shell.json("discover", "assume", "Fewer tickets follow", "--depends-on", "A2", "--confidence", "low")
    circle = shell.run("discover", "revise", "A1", "--depends-on", "A3", code=2).stderr
    assert "that is a circle: A1 → A3 → A2 → A1" in circle
    same = shell.run("discover", "assume", "It causes the memo", code=2).stderr
    assert "A1 says the same" in same
    refuted = shell.json("discover", "revise", "A1", "--status", "refuted", "--evidence", "5 of 40 only")
    assert refuted["assumption"]["status"] == "refuted" and refuted["shaken"] == ["A2", "A3"]
    assert refuted["assumption"]["evidence"] == [{"text": "5 of 40 only", "turn": 0, "cited": []}]
    told = shell.json("discover", "register")
    assert told["counts"] == {"all": 3, "open": 0, "confirmed": 0, "refuted": 1, "shaken": 2}
    table = shell.run("discover", "register").stdout.splitlines()
    assert [line.split()[1] for line in table if line.startswith("A")] == ["refuted", "shaken", "shaken"]
    again = shell.run("discover", "revise", "a1", "--status", "open").stderr
    assert again == "A1 is open, confidence medium, impact high; open again: A2, A3\n"
    free = shell.json(
        "discover", "revise", "A2", "--depends-on", "", "--statement", "Training helps", "--impact", "low"
    )
    assert (free["assumption"]["depends_on"], free["assumption"]["statement"]) == ([], "Training helps")
    assert shell.json("discover", "forget", "a2") == {"removed": ["A2"]}
    left = shell.json("discover", "register")["assumptions"]
    assert [(each["id"], each["depends_on"]) for each in left] == [("A1", []), ("A3", [])]


def test_G7_points_are_written_listed_and_removed(shell: Shell) -> None:
    shell.json("discover", "say", WHO)
    point = shell.json("discover", "point", "success", "Under ten tickets", "a week.")["point"]
    assert (point["section"], point["text"], point["cited"]) == ("success", "Under ten tickets a week.", [])
    assert (
        "the section says that already"
        in shell.run("discover", "point", "success", "Under ten tickets a week", code=2).stderr
    )
    listed = shell.run("discover", "points").stdout
    assert f"Success  success\n  {point['id']}  Under ten tickets a week. (by hand)\n" in listed
    assert point["id"] in [each["id"] for each in shell.json("discover", "points")["points"]]
    assert "Removed " + point["id"] in shell.run("discover", "forget", point["id"]).stderr
    assert "Under ten tickets" not in shell.run("discover", "document").stdout


def test_G7_a_point_is_put_in_other_words_and_moved(shell: Shell) -> None:
    shell.json("discover", "say", WHO)
    told = {
        "current state": "Nobody knows the rule.",
        "CURRENT-STATE": "Shops ask by phone.",
        "Current  State": "It hurts.",
    }
    for section, text in told.items():  # its heading or its key, in any case
        point = shell.json("discover", "point", section, text)["point"]
        assert point["section"] == "current-state"
    id = point["id"]
    edited = shell.run("discover", "edit", id.lower(), "most of us", "know the rule.").stderr
    assert edited == f"{id} is now in current-state: Most of us know the rule.\n"
    moved = shell.json("discover", "edit", id, "--section", "Size and Evidence")["point"]
    assert (moved["id"], moved["section"], moved["text"]) == (id, "impact", "Most of us know the rule.")
    both = shell.json("discover", "edit", id, "Everybody knows it.", "--section", "GOALS")["point"]
    assert (both["section"], both["text"], both["turn"]) == ("goals", "Everybody knows it.", 0)
    assert f"Goals  goals\n  {id}  Everybody knows it. (by hand)\n" in shell.run("discover", "points").stdout


def test_G7_several_entries_are_removed_at_once_or_none(shell: Shell) -> None:
    shell.json("discover", "say", WHO)
    for each in ("Under ten tickets a week.", "Nobody waits for long."):
        shell.json("discover", "point", "success", each)
    shell.json("discover", "assume", "The memo causes it")
    before = shell.json("discover", "show")["state"]
    ids = [each["id"] for each in before["points"]]
    shell.run("discover", "forget", ids[-1], "A1", "P99", code=5)
    shell.run("discover", "forget", ids[-1], "nothing", code=2)
    assert shell.json("discover", "show")["state"] == before
    gone = shell.run("discover", "forget", ids[-1], f"{ids[-2].lower()},a1", ids[-1]).stderr
    assert gone == f"Removed {ids[-1]}, {ids[-2]}, A1\n"
    after = shell.json("discover", "show")["state"]
    assert [each["id"] for each in after["points"]] == ids[:-2] and after["assumptions"] == []


def test_G_a_turn_is_taken_back_with_what_came_of_it(shell: Shell) -> None:
    shell.json("discover", "say", WHO)
    shell.json("discover", "say", GUESS)
    undone = shell.json("discover", "undo")
    assert undone["undone"] == 2 and undone["state"]["assumptions"] == []
    assert [each["message"] for each in shell.json("discover", "show")["turns"]] == [WHO]
    assert "Turn 1 is taken back." in shell.run("discover", "undo").stderr
    assert "there is no turn to take back" in shell.run("discover", "undo", code=2).stderr


# -- what it ends in


def test_G7_the_document_is_printed_written_and_kept(shell: Shell, tmp_path: Path) -> None:
    shell.json("discover", "say", WHO, "--title", "Returns")
    shell.json("discover", "say", GUESS)
    printed = shell.run("discover", "document")
    assert "Problem brief: Returns" in printed.stdout.splitlines()[0] and "| A1 | I think most cases" in printed.stdout
    assert "Interview, turn 1" in printed.stdout and "open" in printed.stderr
    written = shell.run("discover", "document", "--out", "brief.md", "--title", "Our brief").stderr
    assert "wrote brief.md" in written
    assert "Our brief" in (tmp_path / "brief.md").read_text(encoding="utf-8").splitlines()[0]
    kept = shell.json("discover", "document", "--out", "brief.docx", "--keep")
    assert kept["kept"] and kept["file"] == "brief.docx"
    with zipfile.ZipFile(tmp_path / "brief.docx") as docx:
        assert "Returns have grown since spring" in docx.read("word/document.xml").decode()
    assert [each["id"] for each in shell.json("make", "ls")["documents"]] == [kept["document"]["id"]]
    assert shell.run("make", "show", kept["document"]["id"][:8]).stdout == kept["text"].rstrip("\n") + "\n"
    assert shell.json("discover", "document", "--mode", "solution")["document"]["kind"] == "product-requirements"


def test_G_progress_and_the_transcript(shell: Shell) -> None:
    shell.json("discover", "say", WHO)
    shell.json("discover", "say", GUESS)
    far = shell.json("discover", "progress")
    assert far["mode"] == "problem" and far["open_questions"] and far["probes"][0]["key"] == "framing"
    for probe in far["probes"]:
        assert sum(each["met"] for each in probe["details"]) == probe["met"]
        assert len(probe["details"]) == probe["criteria"]
    shown = shell.run("discover", "show", "last")
    assert (
        shown.stdout.index(f"> {WHO}") < shown.stdout.index("**Problem framing.**") < shown.stdout.index(f"> {GUESS}")
    )
    assert "── turn 1 · problem · framing · just now" in shown.stdout
    whole = shell.json("discover", "show")
    assert whole["interview"]["turns"] == 2 and whole["state"]["turn"] == 2
    assert whole["opening"].startswith("We will work")


def test_G_interviews_are_listed_renamed_and_removed(shell: Shell) -> None:
    shell.json("discover", "say", WHO, "--title", "One")
    id = shell.json("discover", "ls")["interviews"][0]["id"]
    assert shell.run("discover", "ls").stdout.splitlines()[1].split()[:3] == [id[:8], "One", "1"]
    assert "is now called “Two words”" in shell.run("discover", "rename", id[:6], "Two  words").stderr
    assert "would remove the interview “Two words” with 1 turn" in shell.run("discover", "rm", id, "--dry-run").stdout
    assert shell.json("discover", "rm", "last", "--yes") == {"removed": id}
    assert shell.json("discover", "ls") == {"interviews": []}
    assert "begins one" in shell.run("discover", "show", code=5).stderr
    assert shell.json("conversation", "ls") == {"conversations": []}


# -- what interviews build on


def test_G6_what_is_known_of_the_organisation_is_shown_and_set(shell: Shell, tmp_path: Path) -> None:
    assert "Nothing is known of the organisation" in shell.run("discover", "org").stderr
    assert shell.json("discover", "org", "We", "make chairs.") == {"org_context": "We make chairs.", "changed": True}
    assert shell.json("discover", "org", "We make chairs.")["changed"] is False
    assert "What I know of you: We make chairs." in shell.run("discover", stdin="").stdout
    (tmp_path / "who.md").write_text("We make lamps.\n", encoding="utf-8")
    shell.run("discover", "org", "--file", "who.md")
    assert shell.run("discover", "org").stdout == "We make lamps.\n"
    shell.run("discover", "org", "--file", "-", stdin="We make tables.")
    state = json.loads((shell.workspace / "projects" / "default" / "project_state.json").read_text())
    assert state["org_context"] == "We make tables."
    shell.run("discover", "org", "")
    assert shell.json("discover", "org")["org_context"] == ""


def test_G1_knowledge_is_shown_written_edited_and_a_broken_file_refused(shell: Shell) -> None:
    shown = shell.run("discover", "knowledge").stdout
    assert "stakeholders   Stakeholder mapping" in shown and "buyer-not-user" in shown and "delivery" in shown
    modes = shell.json("discover", "knowledge")["modes"]
    assert [(each["name"], len(each["probes"]), len(each["patterns"])) for each in modes] == [
        ("problem", 7, 8),
        ("solution", 7, 8),
    ]
    own = shell.workspace / "discovery" / "problem.toml"
    assert "It counts from the next turn on" in shell.run("discover", "knowledge", "problem", "--out", str(own)).stderr
    assert tomllib.loads(own.read_text(encoding="utf-8"))["name"] == "problem"
    refused = shell.run("discover", "knowledge", "problem", "--out", str(own), code=2).stderr
    assert "is there already" in refused

    text = own.read_text(encoding="utf-8")
    assert 'title = "Problem framing"' in text
    own.write_text(text.replace('title = "Problem framing"', 'title = "The qanarybird"'), encoding="utf-8")
    assert "**The qanarybird.**" in shell.run("discover", "say", WHO).stdout
    assert "changes what is shipped" in shell.run("discover", "knowledge", "problem").stderr

    own.write_text(text.replace('key = "framing"', "key = 7", 1), encoding="utf-8")
    for arguments in (["knowledge"], ["say", GUESS], ["progress"], ["document"]):
        error, step = shell.run("discover", *arguments, code=2).stderr.splitlines()
        assert str(own) in error and step.startswith("Next: write key = ")
    own.write_text("name = [", encoding="utf-8")
    broken = shell.run("discover", stdin=lines(GUESS), code=2).stderr
    assert str(own) in broken and "mend the file, or remove it" in broken
    own.unlink()
    assert len(shell.json("discover", "show")["turns"]) == 1


def test_G1_knowledge_needs_no_workspace_and_does_not_stand_in_its_way(shell: Shell, tmp_path: Path) -> None:
    there = tmp_path / "later"
    assert len(shell.json("discover", "knowledge", "-w", str(there))["modes"]) == 2 and not there.exists()
    apart = shell.run("discover", "knowledge", "solution", "-w", str(there), "--out", "mine.toml").stderr
    assert f"It counts once it is {there / 'discovery' / 'solution.toml'}" in apart and not there.exists()
    own = there / "discovery" / "solution.toml"
    shell.run("discover", "knowledge", "solution", "-w", str(there), "--out", str(own))
    shell.run("discover", "say", WHO, "-w", str(there))
    assert own.is_file()
    no_folder = shell.run("discover", "knowledge", "problem", "--out", "no/where.toml", code=2).stderr
    assert "there is no folder no" in no_folder


# -- with a model


def test_G7_a_model_asks_by_its_tools_and_why_tells_what_was_refused(shell: Shell, server: ModelServer) -> None:
    calls = [
        ("register_assumption", {"statement": "The memo causes most cases", "confidence": "low", "impact": "high"}),
        ("update_assumption", {"id": "A7", "status": "refuted"}),
        (
            "ask_questions",
            {"reply": "Thank you.", "questions": [{"text": "Who reads it?"}, {"text": "When did you last see it?"}]},
        ),
    ]
    server.acts.append([(name, json.dumps(arguments)) for name, arguments in calls])
    done = shell.run("discover", *with_model(server), stdin=lines(GUESS, "/why"))
    assert "openai-compatible:stub asks." in done.stderr
    assert "openai-compatible:stub: " in done.stderr and " tokens read" in done.stderr
    assert "Who reads it?" in done.stdout and "refused   – update_assumption: " in done.stdout
    assert "✓ register_assumption: " in done.stdout and "deciding took " in done.stdout


def test_G_a_model_that_fails_is_told_and_rules_ask(shell: Shell, server: ModelServer) -> None:
    server.always = server.always_forms = SERVER_ERROR
    done = shell.run("discover", "say", WHO, *with_model(server))
    assert "Warning: " in done.stderr and "1. " in done.stdout
    parts = {each["part"] for each in shell.json("discover", "say", GUESS, *with_model(server))["account"]["degraded"]}
    assert parts >= {"model"}


# -- at a terminal


def test_G_a_terminal_shows_where_one_was_and_ctrl_c_leaves_only_the_line(shell: Shell) -> None:
    shell.run("discover", "say", WHO, "--title", "Returns")
    command = (sys.executable, "-m", "ragforge.interfaces.cli.main", "-w", str(shell.workspace), "discover")
    terminal = Terminal(*command)
    terminal.wait_for("“Returns” in default, going on after 1 turn")
    terminal.wait_for("> We are Nordlicht")
    terminal.wait_for("Problem framing. Finds out")  # bold on a terminal, without its marks
    terminal.wait_for("Problem · Problem framing · 0 of 7 probes done")
    terminal.wait_for("> ")
    terminal.type("half a line")
    terminal.wait_for("half a line")
    time.sleep(0.1)  # the line's last letter is shown just before the terminal listens again
    terminal.type("\x03")
    terminal.wait_for("Ctrl-D or /quit ends the interview")
    terminal.wait_for("> ")
    terminal.type("I think most cases come from the old memo.\r")
    terminal.wait_for("Assumption A1: ")
    terminal.wait_for(" · 1 assumption")
    terminal.wait_for("> ")
    terminal.type("/undo\r")
    terminal.wait_for("Turn 2 is taken back.")
    terminal.wait_for("> We are Nordlicht")
    terminal.wait_for("0 of 7 probes done")
    terminal.wait_for("> ")
    terminal.type("\x04")
    assert terminal.close() == 0
    assert [each["message"] for each in shell.json("discover", "show")["turns"]] == [WHO]


@pytest.mark.parametrize("way", ["bracketed", "bare", "stdout to a file"])
def test_G_lines_that_are_pasted_are_one_message(shell: Shell, tmp_path: Path, way: str) -> None:
    pasted = ("We are Nordlicht, a furniture maker.", "", "- Returns have grown.", "- I lead customer service.")
    command: tuple[str, ...]
    command = (sys.executable, "-m", "ragforge.interfaces.cli.main", "-w", str(shell.workspace), "discover")
    if way == "stdout to a file":
        command = ("/bin/sh", "-c", 'exec "$@" > ' + shlex.quote(str(tmp_path / "out")), "sh", *command)
    terminal = Terminal(*command)
    terminal.wait_for("/help lists the commands.")
    terminal.wait_for("\x1b[?2004h" if way == "bracketed" else "> ")
    time.sleep(0.2)  # a terminal listens just after it has shown that
    text = "\r".join(pasted)
    terminal.type(f"\x1b[200~{text}\x1b[201~" if way == "bracketed" else text)
    terminal.wait_for("I lead customer service.")
    time.sleep(0.2)
    terminal.type("\r")
    terminal.wait_for("0 of 7 probes done")
    terminal.wait_for("> ")
    time.sleep(0.2)
    terminal.type("/points\r/why\r")  # what begins with a command is read line by line
    terminal.wait_for("> ") if way == "stdout to a file" else terminal.wait_for("decided   problem, ")
    time.sleep(0.5)
    terminal.type("/quit\r")
    assert terminal.close() == 0
    assert [each["message"] for each in shell.json("discover", "show")["turns"]] == ["\n".join(pasted)]
    if way == "stdout to a file":
        assert "decided   problem, " in (tmp_path / "out").read_text()


def test_G_lines_that_were_typed_before_the_prompt_are_each_one(shell: Shell) -> None:
    shell.run("discover", "say", WHO)
    command = (sys.executable, "-m", "ragforge.interfaces.cli.main", "-w", str(shell.workspace), "discover")
    terminal = Terminal(*command)
    terminal.type("continue\rgo on\r/quit\r")
    terminal.wait_for("going on after 1 turn")
    terminal.wait_for("/quit")
    assert terminal.close() == 0
    assert [each["message"] for each in shell.json("discover", "show")["turns"]] == [WHO, "continue", "go on"]


def test_G_ctrl_d_right_after_a_line_ends_the_interview(shell: Shell) -> None:
    terminal = Terminal(sys.executable, "-m", "ragforge.interfaces.cli.main", "-w", str(shell.workspace), "discover")
    terminal.wait_for("/help lists the commands.")
    terminal.wait_for("> ")
    time.sleep(0.2)
    terminal.type(f"{WHO}\r\x04")
    terminal.wait_for("0 of 7 probes done")
    assert terminal.close() == 0
    assert [each["message"] for each in shell.json("discover", "show")["turns"]] == [WHO]


def test_G_removal_is_asked_for_at_a_terminal(shell: Shell) -> None:
    shell.run("discover", "say", WHO)
    command = (
        sys.executable,
        "-m",
        "ragforge.interfaces.cli.main",
        "-w",
        str(shell.workspace),
        "discover",
        "rm",
        "last",
    )
    terminal = Terminal(*command)
    terminal.wait_for("Remove the interview “Interview” with 1 turn for good?")
    terminal.type("n\r")
    terminal.wait_for("Nothing removed.")
    assert terminal.close() == 0 and len(shell.json("discover", "ls")["interviews"]) == 1


# -- next steps in messages


def test_G_next_steps_name_where_the_command_acted() -> None:
    common = Common(workspace=Path("w"), project="p")
    assert common.placed("ragforge discover begins one") == "ragforge discover -w w -p p begins one"
    assert common.placed("ragforge discover ls shows yours") == "ragforge discover ls -w w -p p shows yours"
    assert common.placed("ragforge discover knowledge problem") == "ragforge discover knowledge -w w problem"
