"""`ragforge learn` as an orchestrator, an agent and a reviewer use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.catalogs import change
from tests.shell import Shell, bare_environment

PROBLEM = "Returning an order from an async route fails because its items are loaded lazily"
ERROR = "MissingGreenlet: greenlet_spawn has not been called"
EAGER = "Load the items eagerly with selectinload in the query"
REFRESH = "Keep objects alive after the commit and refresh them before they are returned"
ASKED = f"{PROBLEM} {ERROR}"
FEEDBACK = "The login endpoint writes passwords into the log in plain text"
DAY = 24 * 3_600_000


class Desk(Shell):
    """With the few things that most tests begin with."""

    def fail(self, solution: str = EAGER, *more: str) -> str:
        """A failure is told; the id of the lesson."""
        told = ("--agent", "backend", "--failure", PROBLEM, "--error", ERROR, "--solution", solution)
        return str(self.json("learn", "capture", "failure", *told, *more)["lesson"]["id"])

    def patterns(self, *more: str) -> list[dict[str, Any]]:
        return list(self.json("learn", "ls", *more)["patterns"])

    def apart(self, *arguments: str) -> None:
        """In a process of its own, as every command of a user: with it go its hands on the indexes."""
        command = [sys.executable, "-m", "ragforge.interfaces.cli.main", "-w", str(self.workspace), *arguments]
        subprocess.run(command, capture_output=True, check=True, timeout=60)


@pytest.fixture
def desk(swift_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Desk:
    bare_environment(monkeypatch, swift_path)
    monkeypatch.setenv("RAGFORGE_LEARN__EMBEDDER", "wordllama")
    return Desk(swift_path / "workspace", capsys)


# -- telling


def test_K1_each_kind_is_told_with_all_its_fields(desk: Desk) -> None:
    common = ("--agent", "Backend Developer", "--task-type", "testing", "--technology", "python", "--task", "an order")
    more = (*common, "--when", "always", "--evidence", "test_order passes")
    failure = desk.json(
        "learn", "capture", "failure", "--failure", PROBLEM, "--error", ERROR, "--solution", EAGER, *more
    )
    rejection = desk.json(
        "learn",
        "capture",
        "rejection",
        "--gate",
        "Security Review",
        "--feedback",
        FEEDBACK,
        "--revision",
        "Mask",
        *more,
    )
    approval = desk.json("learn", "capture", "approval", "--gate", "design", "--approach", "A queue", *more)
    assert [each["quality"] for each in (failure, rejection, approval)] == ["HIGH", "HIGHEST", "HIGHEST"]
    kinds = ("failure_solution", "gate_rejection", "gate_approval")
    for told, kind in zip((failure, rejection, approval), kinds, strict=True):
        assert told["lesson"]["facets"] == {
            "entry_type": kind,
            "agent_type": "backend-developer",
            "task_type": "testing",
            "technology": "python",
        }
        words = told["lesson"]["told"]
        assert (words["task"], words["decision_criteria"], words["evidence"]) == (
            "an order",
            "always",
            "test_order passes",
        )
        assert told["lesson"]["verified"] and told["lesson"]["embedded_at"] is None
    words = failure["lesson"]["told"]
    assert (words["failure_description"], words["error_message"], words["solution_steps"]) == (PROBLEM, ERROR, EAGER)
    words = rejection["lesson"]["told"]
    assert (words["gate_type"], words["human_feedback"], words["revision_approach"]) == (
        "security-review",
        FEEDBACK,
        "Mask",
    )
    assert (approval["lesson"]["told"]["gate_type"], approval["lesson"]["told"]["approved_approach"]) == (
        "design",
        "A queue",
    )
    assert [each["id"] for each in desk.json("learn", "staged")["lessons"]] == [
        each["lesson"]["id"] for each in (failure, rejection, approval)
    ]


def test_K1_long_texts_come_from_files_and_stdin(desk: Desk) -> None:
    log = desk.workspace.parent / "error.txt"
    log.write_text("Traceback\n  ValueError: wrong\n")
    told = ("--agent", "any", "--failure", "@@once is missing", "--error", f"@{log}", "--solution", "-")
    lesson = desk.json("learn", "capture", "failure", *told, stdin="1. add it\n2. run again\n")["lesson"]
    assert lesson["told"]["failure_description"] == "@once is missing"
    assert lesson["told"]["error_message"] == "Traceback\n  ValueError: wrong"
    assert lesson["told"]["solution_steps"] == "1. add it\n2. run again"
    staged = desk.run("learn", "show", lesson["id"][:6]).stdout
    assert "solution  1. add it\n          2. run again\n" in staged and "waits for a checkpoint" in staged

    gone = desk.run("learn", "capture", "approval", "--gate", "g", "--approach", "@nowhere", code=5).stderr
    assert "there is no file nowhere" in gone and "--approach @FILE" in gone
    both = desk.run("learn", "capture", "approval", "--gate", "-", "--approach", "-", code=2).stderr
    assert "--gate and --approach cannot all be standard input" in both


def test_K1_what_is_missing_or_empty_is_said_and_nothing_is_kept(desk: Desk) -> None:
    missing = desk.run("learn", "capture", "failure", "--agent", "backend", code=2).stderr
    assert "Missing option '--failure'" in missing and "ragforge learn capture failure --help" in missing
    assert not desk.workspace.exists()
    assert (
        "approved_approach" in desk.run("learn", "capture", "approval", "--gate", "g", "--approach", " ", code=2).stderr
    )
    assert "Nothing waits" in desk.run("learn", "staged").stderr


def test_K1_what_nobody_verified_waits_for_a_person(desk: Desk) -> None:
    lesson = desk.fail(EAGER, "--unverified")
    staged = desk.run("learn", "staged")
    assert staged.stdout.splitlines()[1].split()[:4] == [lesson[:8], "failure", "backend", "no"]
    assert f"learn approve -w {desk.workspace} {lesson[:8]}" in staged.stderr
    report = desk.json("learn", "checkpoint")["checkpoint"]
    assert (report["embedded"], report["waiting"]) == (0, 1)
    assert "1 not verified" in desk.run("learn", "checkpoint").stderr
    assert f"Approved {lesson[:8]}" in desk.run("learn", "approve", lesson[:5]).stderr
    assert desk.json("learn", "checkpoint")["checkpoint"]["embedded"] == 1

    other = desk.fail(REFRESH, "--unverified")
    assert desk.json("learn", "reject", other[:8]) == {"rejected": [], "removed": [other]}
    assert desk.json("learn", "staged")["lessons"] == []


def test_K2_a_key_tells_once_and_commands_say_where_to_go_on(desk: Desk) -> None:
    first, again = desk.fail(EAGER, "--key", "run-7"), desk.fail(EAGER, "--key", "run-7")
    assert first == again
    assert (
        "this key was used for another lesson"
        in desk.run("learn", "capture", "approval", "--gate", "g", "--approach", "a", "--key", "run-7", code=2).stderr
    )
    named = desk.run("learn", "capture", "approval", "--gate", "g", "--approach", "a", "-p", "second").stderr
    assert "Made project second" in named
    assert f"ragforge learn checkpoint -w {desk.workspace} -p second" in named
    assert desk.run("learn", "staged", "-q").stderr == ""


# -- checkpoints


def test_K3_a_checkpoint_embeds_once_and_tells_what_it_did(desk: Desk) -> None:
    for _ in range(3):
        desk.fail()
    desk.run("learn", "capture", "rejection", "--gate", "security", "--feedback", FEEDBACK, "--revision", "Mask them")
    done = desk.run("learn", "checkpoint", "--kind", "phase")
    assert done.stdout == "" and "Embedded 4 lessons in" in done.stderr
    assert "2 new patterns, 2 of what a pattern tells already. The project has 2 patterns" in done.stderr
    for kind in ("project", "cancelled", "manual"):
        report = desk.json("learn", "checkpoint", "--kind", kind)["checkpoint"]
        assert (report["kind"], report["embedded"], report["patterns"]) == (kind, 0, 2)
    assert "Nothing was waiting. The project has 2 patterns" in desk.run("learn", "checkpoint").stderr
    assert "'--kind'" in desk.run("learn", "checkpoint", "--kind", "never", code=2).stderr


# -- asking


def test_K5_what_is_known_is_found_for_a_task_and_for_a_failure(desk: Desk) -> None:
    nothing = desk.run("learn", "query", ASKED, code=5).stderr
    assert "no workspace" in nothing
    desk.fail()
    waits = desk.run("learn", "query", ASKED)
    assert waits.stdout == "" and f"ragforge learn checkpoint -w {desk.workspace}" in waits.stderr
    desk.run("learn", "checkpoint")
    (pattern,) = desk.patterns()

    found = desk.json("learn", "query", *ASKED.split())
    assert [each["pattern"]["id"] for each in found["patterns"]] == [pattern["id"]] and found["threshold"] == 0.7
    (kept,) = [each for each in found["decisions"] if each["kept"]]
    assert kept["pattern"] == pattern["id"]
    failed = desk.json("learn", "query", PROBLEM, "--error", ERROR)
    assert [each["pattern"]["id"] for each in failed["patterns"]] == [pattern["id"]] and failed["threshold"] == 0.75
    assert desk.json("learn", "query", "--failure", "-", stdin=ASKED)["patterns"]

    shown = desk.run("learn", "query", ASKED, "--agent", "backend", "--why").stdout
    head, *lines = shown.splitlines()
    assert head.startswith(f"1  Less Common - 1 success  {pattern['id'][:8]}  fits ")
    assert f"solution  {EAGER}" in lines and "for       backend" in lines
    assert any(line.split()[1:3] == [pattern["id"][:8], "yes"] for line in lines if line)
    assert "0.7 or more fits" in shown

    for filters in (("--agent", "frontend"), ("--entry-type", "approval"), ("--entry-type", "gate_rejection")):
        other = desk.run("learn", "query", ASKED, *filters)
        assert other.stdout == "" and "no lesson is known" in other.stderr.lower()
    assert desk.json("learn", "query", ASKED, "--entry-type", "failure", "--technology", "python")["patterns"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("x", "--limit", "6"), "1 to 5"),
        (("x", "--failure", "--limit", "4"), "1 to 3"),
        (("x", "--failure", "--entry-type", "approval"), "among failures only"),
        (("x", "--entry-type", "luck"), "failure, rejection, approval"),
        ((" ",), "there is no task to ask about"),
    ],
)
def test_K5_a_question_that_cannot_be_asked_is_refused(desk: Desk, arguments: tuple[str, ...], says: str) -> None:
    desk.fail()
    refused = desk.run("learn", "query", *arguments, code=2)
    assert refused.stdout == "" and says in refused.stderr


def test_K6_repeated_solutions_count_and_the_most_reliable_comes_first(desk: Desk) -> None:
    desk.fail(REFRESH, "--technology", "sqlalchemy")  # for other facets: never one with those below
    for _ in range(4):
        desk.fail()
    desk.run("learn", "checkpoint")
    rare, common = sorted(desk.patterns(), key=lambda each: int(each["record"]["captures"]))
    assert (rare["record"]["captures"], common["record"]["captures"]) == (1, 4)

    told = desk.run("learn", "outcome", common["id"][:6], "won", "--note", "also for invoices", "--key", "o1").stderr
    assert f"Recorded: {common['id'][:8]} won in default" in told
    desk.run("learn", "outcome", common["id"], "won", "--note", "also for invoices", "--key", "o1")
    assert desk.json("learn", "outcome", common["id"], "lost")["outcome"]["success"] is False
    shown = desk.run("learn", "query", ASKED).stdout
    assert f"1  Most Common - 5 successes, 1 loss  {common['id'][:8]}" in shown
    assert f"2  Less Common - 1 success  {rare['id'][:8]}" in shown
    assert "alternative to 2" in shown and "alternative to 1" in shown

    desk.run("learn", "outcome", "zzz", "won", code=5)
    assert "'won', 'lost'" in desk.run("learn", "outcome", common["id"], "maybe", code=2).stderr


def test_K6_a_pattern_is_shown_with_everything_it_stands_on(desk: Desk) -> None:
    lessons = [desk.fail(EAGER, "--evidence", "test_order passes"), desk.fail()]
    desk.run("learn", "checkpoint")
    (pattern,) = desk.patterns()
    desk.run("learn", "outcome", pattern["id"], "lost", "--note", "not with joined tables")
    shown = desk.run("learn", "show", pattern["id"][:7]).stdout
    assert shown.startswith(f"Less Common - 2 successes, 1 loss  {pattern['id']}\n")
    assert "record    2 captures; 0 won and 1 lost when applied" in shown
    assert "state     live, nobody has reviewed it" in shown and "from      failure, quality HIGH" in shown
    assert all(lesson in shown for lesson in lessons) and "evidence  test_order passes" in shown
    assert "lost  not with joined tables  just now by owner in default" in shown
    details = desk.json("learn", "show", pattern["id"])
    assert [each["id"] for each in details["lessons"]] == lessons and details["pattern"]["id"] == pattern["id"]
    assert len(details["outcomes"]) == 1 and details["alternatives"] == []
    assert f"part of the pattern {pattern['id']}" in desk.run("learn", "show", lessons[0]).stdout
    listed = desk.run("learn", "ls").stdout.splitlines()
    assert listed[0].split()[:4] == ["ID", "SUCCESSES", "LOSSES", "LABEL"]
    assert listed[1].split()[:3] == [pattern["id"][:8], "2", "1"]


def test_K6_people_edit_merge_split_and_reject(desk: Desk) -> None:
    lessons = [
        desk.fail(),
        desk.fail(),
        desk.fail("Open a session for every request and close it after it"),
    ]
    desk.run("learn", "checkpoint")
    one, two = sorted(desk.patterns(), key=lambda each: -int(each["record"]["captures"]))

    edited = desk.json("learn", "edit", one["id"][:8], "--problem", "Lazy loading", "--when", "-", stdin="Async code\n")
    assert edited["pattern"]["words"] == {"problem": "Lazy loading", "solution": EAGER, "when_to_try": "Async code"}
    assert (edited["pattern"]["version"], edited["pattern"]["approved"]) == (2, True)
    assert "version 3" in desk.run("learn", "edit", one["id"], "--solution", "selectinload").stderr
    assert "give --problem" in desk.run("learn", "edit", one["id"], code=2).stderr

    merged = desk.run("learn", "merge", one["id"][:8], two["id"][:8]).stderr
    assert f"Merged 1 pattern into {one['id'][:8]}: 3 successes" in merged
    assert [each["id"] for each in desk.patterns()] == [one["id"]]
    assert "merged with itself" in desk.run("learn", "merge", one["id"], one["id"], code=2).stderr
    made = desk.json("learn", "split", one["id"][:8], lessons[2][:8])
    assert made["lessons"] == [lessons[2]] and made["pattern"]["record"]["captures"] == 1
    assert "no capture of the pattern" in desk.run("learn", "split", one["id"], "zz", code=5).stderr

    assert "nobody is told of it" in desk.run("learn", "reject", one["id"][:8]).stderr
    assert [each["id"] for each in desk.patterns("--state", "rejected")] == [one["id"]]
    assert [each["id"] for each in desk.patterns("--state", "live")] == [made["pattern"]["id"]]
    found = desk.json("learn", "query", ASKED)["patterns"]
    assert [each["pattern"]["id"] for each in found] == [made["pattern"]["id"]]
    (again,) = desk.json("learn", "approve", one["id"])["approved"]
    assert (again["state"], again["approved"]) == ("live", True)


def test_K6_a_staged_lesson_is_corrected_with_the_same_words(desk: Desk) -> None:
    failure = desk.fail()
    rejection = desk.json("learn", "capture", "rejection", "--gate", "g", "--feedback", "no", "--revision", "yes")
    approval = desk.json("learn", "capture", "approval", "--gate", "g", "--approach", "this")
    edit = ("--problem", "a better problem", "--solution", "a better solution", "--when", "now")
    for id, names in (
        (failure, ("failure_description", "solution_steps")),
        (rejection["lesson"]["id"], ("human_feedback", "revision_approach")),
        (approval["lesson"]["id"], ("task", "approved_approach")),
    ):
        told = desk.json("learn", "edit", id, *edit)["lesson"]["told"]
        assert [told[name] for name in names] == ["a better problem", "a better solution"]
        assert told["decision_criteria"] == "now"
    assert f"{failure} is a lesson, not embedded yet" in desk.run("learn", "merge", failure, failure, code=2).stderr


def test_K7_the_context_is_printed_word_for_word(desk: Desk) -> None:
    assert desk.fail(EAGER, "--when", "Items are needed in the answer")
    desk.run("learn", "checkpoint")
    (pattern,) = desk.patterns()
    printed = desk.run("learn", "context", *ASKED.split(), "--agent", "Backend")
    expected = (
        f"Task: {ASKED}\nAgent: backend\n\n"
        "[ORCHESTRATOR CONTEXT: Historical Knowledge]\n\n"
        "Similar situations have been resolved these ways:\n\n"
        "Pattern 1 (Less Common - 1 success):\n"
        f"- Problem: {PROBLEM} (error: {ERROR})\n"
        f"- Solution: {EAGER}\n"
        "- When to try: Items are needed in the answer\n\n"
        "Recommendation: Try patterns in order. Pattern 1 is most likely based on historical data.\n\n"
        "[END CONTEXT]"
    )
    assert printed.stdout == expected + "\n" and f"{pattern['id'][:8]} won, or lost" in printed.stderr
    told = desk.json("learn", "context", ASKED, "--agent", "backend")
    assert told["text"] == expected and told["shown"] == [pattern["id"]]

    nothing = desk.run("learn", "context", "-", "--agent", "frontend", stdin="bake a cake")
    assert nothing.stdout == "Task: bake a cake\nAgent: frontend\n" and "Only the task" in nothing.stderr
    refused = desk.run("learn", "capture", "approval", "--gate", "g", "--approach", "-", stdin=printed.stdout, code=2)
    assert "repeats a block of historical knowledge" in refused.stderr


# -- what goes, and what moves


def test_K8_what_is_a_year_old_goes_unless_the_clock_jumped(desk: Desk) -> None:
    desk.fail()
    desk.apart("learn", "checkpoint")
    assert "Nothing to remove" in desk.run("learn", "prune").stderr
    change(desk.workspace, "UPDATE knowledge_staging SET embedded_at = embedded_at - :past", past=366 * DAY)
    change(desk.workspace, "UPDATE knowledge_clock SET seen_at = seen_at - :past", past=3 * DAY)
    paused = desk.run("learn", "prune")
    assert "Nothing removed: the clock is" in paused.stderr
    assert f"ragforge learn prune -w {desk.workspace} --trust-clock" in paused.stderr
    assert len(desk.patterns()) == 1
    report = desk.json("learn", "prune", "--trust-clock")["prune"]
    assert (report["lessons"], report["patterns"], report["pending"]) == (1, 1, [])
    assert desk.patterns() == []


def test_K8_removing_asks_and_leaves_nothing(desk: Desk) -> None:
    desk.fail()
    desk.apart("learn", "checkpoint")
    staged = desk.fail(REFRESH)
    (pattern,) = desk.patterns()
    both = (pattern["id"][:8], staged[:8])
    assert "add --yes" in desk.run("learn", "rm", *both, code=2).stderr
    assert desk.run("learn", "rm", *both, "--dry-run").stdout == "would remove 1 pattern with 1 capture and 1 lesson\n"
    assert desk.json("learn", "rm", *both, "--dry-run")["would_remove"] == [pattern["id"], staged]
    assert "Removed 1 pattern with 1 capture and 1 lesson" in desk.run("learn", "rm", *both, "--yes").stderr
    gone = desk.run("learn", "show", pattern["id"], code=5).stderr
    assert "no pattern or staged lesson" in gone and f"ragforge learn ls -w {desk.workspace}" in gone
    assert desk.patterns() == [] and desk.json("learn", "staged")["lessons"] == []


def test_K8_a_beginning_that_could_be_several_is_no_id(desk: Desk) -> None:
    desk.fail()
    desk.fail(REFRESH)
    change(desk.workspace, "UPDATE knowledge_staging SET id = 'abc' || substr(id, 4)")
    assert "'abc' could be 2 of them" in desk.run("learn", "show", "abc", code=2).stderr
    assert "no pattern or staged lesson ''" in desk.run("learn", "show", "", code=5).stderr


def test_K9_a_project_shares_what_it_learnt(desk: Desk) -> None:
    desk.fail()
    desk.run("learn", "checkpoint")
    (pattern,) = desk.patterns()
    desk.run("project", "new", "second")
    assert desk.json("learn", "query", ASKED, "-p", "second")["patterns"] == []
    assert "LESSONS" not in desk.run("project", "ls").stdout
    shared = desk.run("project", "set", "default", "--share-lessons").stderr
    assert "Its lessons are told in all projects" in shared and "shares its lessons" in shared
    columns = [line.split() for line in desk.run("project", "ls").stdout.splitlines()]
    place = columns[0].index("LESSONS")
    assert {line[0]: line[place] for line in columns[1:]} == {"default": "shared", "second": "kept"}
    shown = desk.run("learn", "query", ASKED, "-p", "second")
    assert "learnt in the project default" in shown.stdout
    assert f"ragforge learn outcome -w {desk.workspace} -p second {pattern['id'][:8]} won" in shown.stderr
    desk.run("learn", "outcome", pattern["id"][:8], "won", "-p", "second")
    assert "won   just now by owner in second" in desk.run("learn", "show", pattern["id"]).stdout
    assert desk.json("project", "set", "default", "--keep-lessons")["project"]["shares_lessons"] is False
    assert desk.json("learn", "query", ASKED, "-p", "second")["patterns"] == []


def test_K9_lessons_move_as_lines_of_json(desk: Desk) -> None:
    desk.fail()
    desk.run("learn", "checkpoint")
    desk.fail(REFRESH, "--unverified")
    file = desk.workspace.parent / "lessons.jsonl"
    assert f"Wrote 2 lessons to {file}" in desk.run("learn", "export", str(file)).stderr
    lines = desk.run("learn", "export", "-")
    assert lines.stdout == file.read_text() and lines.stderr == "2 lessons\n"
    records = [json.loads(line) for line in lines.stdout.splitlines()]
    assert [each["solution_steps"] for each in records] == [EAGER, REFRESH]
    assert records[0]["pattern"]["state"] == "live" and records[1]["verified"] is False

    told = desk.run("learn", "import", str(file), "-p", "second").stderr
    assert "Staged in second: 2 new lessons, 1 to be approved by a person" in told
    assert desk.json("learn", "import", "-", "-p", "second", stdin=lines.stdout)["import"] == {
        "new": 0,
        "known": 2,
        "unverified": 0,
    }
    assert desk.json("learn", "checkpoint", "-p", "second")["checkpoint"]["embedded"] == 1
    assert desk.json("learn", "import", str(file), "-p", "second")["import"]["known"] == 2

    broken = desk.run("learn", "import", "-", "-p", "third", stdin=lines.stdout + "{", code=2).stderr
    assert "line 3 of standard input is not JSON" in broken
    assert "third" not in desk.run("project", "ls").stdout
    assert "record 1 is no lesson" in desk.run("learn", "import", "-", "-p", "third", stdin="[1]", code=2).stderr
    assert "there is no file" in desk.run("learn", "import", "nowhere.jsonl", code=5).stderr
    assert "cannot write" in desk.run("learn", "export", "nowhere/x.jsonl", code=2).stderr


# -- what similarity means


def test_K5_the_calibration_tells_how_well_each_curve_tells(desk: Desk) -> None:
    desk.fail()
    lines = desk.run("learn", "calibrate").stdout.splitlines()
    assert lines[0].startswith("wordllama  fitted ")
    assert [line.split()[:2] for line in lines[3:7]] == [
        ["task", "0.7"],
        ["failure", "0.75"],
        ["problem", "0.5"],
        ["lesson", "0.5"],
    ]
    told = desk.json("learn", "calibrate", "--anew")
    assert told["calibration"]["embedder"] == "wordllama"
    assert set(told["cosine_alone"]) == set(told["calibration"]["measured"]) == {"task", "failure", "problem", "lesson"}
    for name, measured in told["calibration"]["measured"].items():
        assert 0 <= measured["precision"] <= 1 and 0 <= measured["recall"] <= 1
        assert len(told["calibration"][name]["weights"]) == (4 if name == "lesson" else 3)
    assert "No such option" in desk.run("learn", "prune", "-p", "x", code=2).stderr
