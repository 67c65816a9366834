"""`search`, `explain` and `rebuild` as a person and a program use them, on a real workspace."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from ragforge import Ragforge
from ragforge.domain.access import Clearance
from ragforge.domain.library import Labels
from ragforge.interfaces.cli.main import main
from ragforge.settings import load

QUESTION = "How long can a chair be returned?"
FILES = {
    "rules.md": (
        "# Returns\n\nThe time begins on the day after delivery.\n\n## Chairs\n\nA chair may be returned within sixty "
        "days. The refund goes to the card that paid.\n\n## Lamps\n\nA lamp may be returned within thirty days.\n",
        Labels(source_type="policy", tags=("returns",), confidentiality=Clearance.PUBLIC),
    ),
    "memo.txt": (
        "Memo of May 2023: a chair may be returned within thirty days. Showrooms tell every customer.\n",
        Labels(source_type="memo", tags=("returns", "agent:sales"), confidentiality=Clearance.CONFIDENTIAL),
    ),
    "copy.txt": (
        "Memo of May 2023: a chair may be returned within thirty days. Showrooms tell every customer!\n",
        Labels(source_type="memo", tags=("agent:service",), confidentiality=Clearance.RESTRICTED),
    ),
    "prices.csv": ("name,eur\nFjord chair,189\nSylt desk,900\n", Labels(source_type="table")),
    "evil.md": (
        "# Squeaky\x1b]0;owned\x07\n\nThe squeaking wheel \x1b[2J\x1b[31mis red\u202e and \x9b5mblinks.\n\n"
        + "It rolls on. " * 40,
        Labels(source_type="web"),
    ),
}


@dataclass(frozen=True)
class Done:
    """What a command printed."""

    stdout: str
    stderr: str


class Shell:
    """Runs `ragforge` in this process against one workspace."""

    def __init__(self, workspace: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.workspace = workspace
        self._capture = capture

    def run(self, *arguments: str, code: int = 0) -> Done:
        self._capture.readouterr()
        returned = main(["-w", str(self.workspace), *arguments])
        done = Done(*self._capture.readouterr())
        assert returned == code, f"{arguments}: {returned}\n{done}"
        return done

    def json(self, *arguments: str) -> Any:
        (line,) = self.run(*arguments, "--json").stdout.splitlines()
        return json.loads(line)

    def found(self, *arguments: str) -> set[str]:
        return {passage["document"] for passage in self.json("search", QUESTION, *arguments)["passages"]}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace that no test changes."""
    folder = tmp_path_factory.mktemp("search")
    settings = load(folder / "workspace", flags={"the test": {"embed.model": "wordllama"}}, env={}, folder=folder)
    with Ragforge.open(settings) as forge:
        for name, (text, labels) in FILES.items():
            (folder / name).write_text(text)
            assert not forge.add(folder / name, labels=labels).failed
    yield folder / "workspace"


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("RAGFORGE_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("RAGFORGE_EMBED__MODEL", "wordllama")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def shell(filled: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(filled, capsys)


@pytest.fixture
def own(filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A copy that a test may damage."""
    shell = Shell(filled, capsys)
    shell.run("search", QUESTION)  # so that its indexes are there
    shutil.copytree(filled, tmp_path / "copy")
    return Shell(tmp_path / "copy", capsys)


# -- search


def test_a_passage_is_shown_with_its_number_file_heading_score_and_words(shell: Shell) -> None:
    done = shell.run("search", QUESTION, "-k", "2")
    first, *lines = done.stdout.splitlines()
    number, name, *_, score = first.split()
    assert (number, name) == ("1", "rules.md") and 0 < float(score) <= 1
    assert any("A chair may be returned within sixty days." in line for line in lines)
    assert done.stderr.startswith("2 passages from 2 files in ") and done.stderr.count("\n") == 1
    assert shell.run("search", QUESTION, "-k", "2", "--quiet") == Done(done.stdout, "")


def test_quotes_around_the_question_may_be_left_out(shell: Shell) -> None:
    assert shell.run("search", *QUESTION.split(), "-k", "2").stdout == shell.run("search", QUESTION, "-k", "2").stdout


def test_programs_get_the_fields_of_the_contract(shell: Shell) -> None:
    answer = shell.json("search", QUESTION)
    assert {"passages", "degraded", "timings"} <= set(answer)
    assert answer["degraded"] == [] and answer["timings"]["total"] > 0
    first = answer["passages"][0]
    assert {"chunk_id", "document_id", "document", "locator", "score", "text", "scores"} <= set(first)
    assert first["document"] == "rules.md" and "sixty days" in first["text"]
    assert set(first["scores"]) == {"keywords", "vectors"}
    scores = [passage["score"] for passage in answer["passages"]]
    assert scores == sorted(scores, reverse=True)


def test_a_whole_passage_is_shown_on_demand(shell: Shell) -> None:
    lines = shell.run("search", "lamp refund", "-k", "1", "--full").stdout.splitlines()
    text = FILES["rules.md"][0].rstrip("\n")
    assert [line.strip() for line in lines[1:]] == text.split("\n")


TODAY = date.today()
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (("--file", "memo.txt"), {"memo.txt"}),
        (("--file", "memo.txt", "--file", "rules.md"), {"memo.txt", "rules.md"}),
        (("--file", "*.txt"), {"memo.txt", "copy.txt"}),
        (("--source-type", "policy"), {"rules.md"}),
        (("--source-type", "policy", "--source-type", "table"), {"rules.md", "prices.csv"}),
        (("--tag", "returns"), {"rules.md", "memo.txt"}),
        (("--agent", "sales"), set(FILES) - {"copy.txt"}),
        (("--agent", "nobody"), set(FILES) - {"memo.txt", "copy.txt"}),
        (("--max-confidentiality", "public"), {"rules.md"}),
        (("--max-confidentiality", "confidential"), set(FILES) - {"copy.txt"}),
        (("--since", str(TODAY - DAY)), set(FILES)),
        (("--since", str(TODAY + 2 * DAY)), set()),
        (("--until", str(TODAY + DAY)), set(FILES)),
        (("--until", str(TODAY - DAY)), set()),
        (("--source-type", "unheard-of"), set()),
    ],
)
def test_filters_choose_the_files(shell: Shell, filters: tuple[str, ...], names: set[str]) -> None:
    assert shell.found(*filters, "--duplicates", "1") == names


def test_nothing_found_is_an_answer_that_says_why(shell: Shell) -> None:
    done = shell.run("search", QUESTION, "--tag", "unheard-of")
    assert done.stdout == "" and done.stderr.startswith("Nothing was searched: no file of the project matches the f")
    answer = shell.json("search", QUESTION, "--tag", "unheard-of")
    assert answer["passages"] == [] and "matches the filters" in answer["notice"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("search", ""), 2, "the question is empty"),
        (("search", "x", "--since", "yesterday"), 2, "is not a date such as 2026-05-01"),
        (("search", "x", "--since", "2026-05-02", "--until", "2026-05-01"), 2, "--since is later than --until"),
        (("search", "x", "--max-confidentiality", "top"), 2, "'restricted'"),
        (("search", "x", "-k", "0"), 2, "'--k'"),
        (("search", "x", "-k", "1000000"), 2, "it can be 1 to 1,000"),
        (("search", "x", "--alpha", "2"), 2, "'--alpha'"),
        (("search", "x", "--file", "gone.md"), 5, "no file 'gone.md'"),
        (("search", "x", "-p", "elsewhere"), 5, "no project 'elsewhere'"),
        (("explain", "x", "--vs", "alpah=0.2"), 2, "alpah is not a setting"),
        (("explain", "x", "--vs", "alpha=7"), 2, "it can be 0 to 1"),
        (("rebuild", "-p", "elsewhere"), 5, "no project 'elsewhere'"),
    ],
)
def test_a_mistake_is_one_sentence_and_a_next_step(
    shell: Shell, arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = shell.run(*arguments, code=code)
    error, step = done.stderr.splitlines()
    assert done.stdout == "" and error.startswith("Error: ") and says in error and step.startswith("Next: ")


@pytest.mark.parametrize("question", ["the of and", "🎉", '"AND (title:x^2 ~', "\x1b[31mred", "返品", "chair " * 4000])
def test_any_question_is_answered(shell: Shell, question: str) -> None:
    for arguments in (("search", question), ("explain", question)):
        assert "\x1b" not in shell.run(*arguments, "--file", "rules.md").stdout


@pytest.mark.parametrize("command", ["search", "explain"])
def test_a_question_without_words_is_said_to_have_none(shell: Shell, command: str) -> None:
    for question in ("🎉", "???"):
        said = shell.run(command, question).stderr.splitlines()
        assert said[0] == "The question has no words: these passages are by meaning alone"
    assert "by meaning alone" not in shell.run(command, QUESTION).stderr


# -- files with one name


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of files that are told apart only by their folders."""
    folder = tmp_path_factory.mktemp("alike")
    settings = load(folder / "workspace", flags={"the test": {"embed.model": "wordllama"}}, env={}, folder=folder)
    for place, days in (("notes/2023", "ten"), ("notes/2024", "twenty"), ("archive/notes/2024", "ninety")):
        (folder / "docs" / place).mkdir(parents=True)
        (folder / "docs" / place / "travel.md").write_text(f"# Travel\n\nTrains are refunded within {days} days.\n")
    (folder / "docs" / "ships.md").write_text("# Ships\n\nShips are refunded never.\n")
    with Ragforge.open(settings) as forge:
        assert not forge.add(folder / "docs").failed
    return folder / "workspace"


def test_files_with_one_name_are_told_apart(alike: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(alike, capsys)
    wanted = {"docs/notes/2024/travel.md", "archive/notes/2024/travel.md", "2023/travel.md", "ships.md"}
    shown = shell.run("search", "refunded trains").stdout.splitlines()
    assert {line.split()[1] for line in shown if line[:1].isdigit()} == wanted
    for arguments in ((), ("--vs", "alpha=0")):
        explained = shell.run("explain", "refunded trains", *arguments).stdout
        assert all(f" {name} " in explained for name in wanted)
    sources = {each["source"]: each["document"] for each in shell.json("search", "refunded trains")["passages"]}
    docs = alike.parent / "docs"
    assert sources == {str(path): path.name for path in docs.rglob("*.md")}
    assert all(name in shell.run("ls").stdout for name in wanted)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_the_source_of_a_copied_file_is_one_that_has_its_name(
    tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres").create() if database == "postgres" else ""
    given = {"embed.model": "wordllama", "store.database_url": url}
    settings = load(tmp_path / "workspace", flags={"the test": given}, env={}, folder=tmp_path)
    copies = [tmp_path / name for name in ("x/a.md", "y/b.md", "z/a.md")]
    with Ragforge.open(settings) as forge:

        def found() -> tuple[str, str]:
            (passage,) = forge.search("trains").passages
            return passage.name, passage.source

        for copy in copies:
            copy.parent.mkdir()
            copy.write_text("Trains are refunded.")
            forge.add(copy)
        assert found() == ("a.md", str(copies[0]))
        copies[0].unlink()
        list(forge.syncing(copies[0].parent, allow_empty=True))
        assert found() == ("a.md", str(copies[2]))


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("notes/2023/travel.md", ["/docs/notes/2023/travel.md"]),
        ("archive/**", ["/docs/archive/notes/2024/travel.md"]),
        ("2024/*.md", ["/docs/archive/notes/2024/travel.md", "/docs/notes/2024/travel.md"]),
        ("docs/*.md", ["/docs/ships.md"]),
        ("**/ships.md", ["/docs/ships.md"]),
    ],
)
def test_the_end_of_a_path_is_enough_wherever_one_is(
    alike: Path, capsys: pytest.CaptureFixture[str], text: str, ends: list[str]
) -> None:
    shell = Shell(alike, capsys)
    found = {each["source"] for each in shell.json("search", "refunded", "--file", text)["passages"]}
    assert found == {f"{alike.parent}{end}" for end in ends}
    planned = shell.json("rm", text, "--dry-run")["would_remove"]
    assert {source for each in planned for source in each["sources"]} == found


def test_what_names_no_file_or_several_is_said(alike: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shell = Shell(alike, capsys)
    several = shell.run("rm", "notes/2024/travel.md", "--yes", code=2).stderr
    assert "'notes/2024/travel.md' could be 2 files" in several and "use an id or more of the path: " in several
    folder = shell.run("search", "x", "--file", "docs/notes", code=5).stderr
    assert "'docs/notes' is a folder\n" in folder and "write 'docs/notes/**'" in folder
    assert "no file 'notes/*.txt'" in shell.run("search", "x", "--file", "notes/*.txt", code=5).stderr
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "ships.md").write_text("of another project")
    other = shell.run("rm", "docs/ships.md", "--yes", code=5).stderr
    assert "no file 'docs/ships.md'" in other, "the file that is here is meant, and it is not in the project"


# -- documents are data, and terminals are not theirs


@pytest.mark.parametrize(
    "arguments", [("search",), ("search", "--full"), ("search", "--json"), ("explain",), ("explain", "--json")]
)
def test_escapes_in_documents_do_not_reach_the_terminal(shell: Shell, arguments: tuple[str, ...]) -> None:
    done = shell.run(*arguments, "squeaking wheel", "--file", "evil.md")
    assert "quea" in done.stdout
    assert not set(done.stdout + done.stderr) & set("\x1b\x07\x9b\u202e")


def on_a_terminal(shell: Shell, *arguments: str, **variables: str) -> str:
    """What a command prints when stdout is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ragforge.interfaces.cli.main", "-w", str(shell.workspace), *arguments]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60", **variables}
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # the terminal is gone with the process
        pass
    os.close(ours)
    assert process.wait(60) == 0
    return shown.decode()


def test_on_a_terminal_the_words_of_the_question_stand_out(shell: Shell) -> None:
    shown = on_a_terminal(shell, "search", QUESTION, "-k", "1")
    assert "\x1b[1mrules.md\x1b[0m" in shown and "\x1b[1mchair\x1b[0m" in shown and "\x1b[1mreturned\x1b[0m" in shown
    assert "\x1b" not in on_a_terminal(shell, "search", QUESTION, "-k", "1", NO_COLOR="1")


@pytest.mark.parametrize("command", ["search", "explain"])
@pytest.mark.parametrize("width", [40, 60, 100])
def test_lines_fit_the_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch, command: str, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    arguments = ["--vs", "alpha=0,reranker=cosine"] if command == "explain" else []
    for more in ([], arguments):
        lines = shell.run(command, QUESTION, *more).stdout.splitlines()
        assert max(map(len, lines)) <= max(width, 55 if command == "explain" else 0)


def test_what_decided_is_never_cut(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = shell.run("explain", QUESTION, "-k", "1", "--all").stdout
    monkeypatch.setenv("COLUMNS", "60")
    narrow = " ".join(shell.run("explain", QUESTION, "-k", "1", "--all").stdout.split())
    verdicts = [
        line.strip() for line in wide.splitlines() if line.lstrip().startswith(("window: ", "beyond ", "dedupe: "))
    ]
    assert len(verdicts) == len(FILES) and all(verdict in narrow for verdict in verdicts)


# -- what is missing is said


def test_a_lost_index_is_said_searched_without_and_healed(own: Shell) -> None:
    for folder in (own.workspace / "indexes").glob("*/*/vectors"):
        shutil.rmtree(folder)
    done = own.run("search", QUESTION, "--quiet", "-k", "1")
    assert "rules.md" in done.stdout
    warning, step = done.stderr.splitlines()
    assert warning.startswith("Warning: searched by words alone") and step.startswith("Next: ")
    healed = own.json("search", QUESTION)
    assert healed["degraded"] == [] and "vectors" in healed["passages"][0]["scores"]


def test_explain_says_which_index_is_missing_and_warns_once(own: Shell) -> None:
    for folder in (own.workspace / "indexes").glob("*/*/vectors"):
        shutil.rmtree(folder)
    done = own.run("explain", QUESTION, "--reranker", "cosine", "--vs", "alpha=0.2")
    (indexes,) = (line for line in done.stdout.splitlines() if line.startswith("indexes"))
    assert indexes.split(maxsplit=1)[1] == "the vector index is missing"
    warnings = [line for line in done.stderr.splitlines() if line.startswith("Warning: ")]
    assert len(warnings) == len(set(warnings)) and any("searched by words alone" in line for line in warnings)


def test_a_part_that_is_missing_is_told_to_programs(own: Shell) -> None:
    answer = own.json("search", QUESTION, "--reranker", "cross-encoder", "--set", f"store.models_dir={own.workspace}")
    (missing,) = answer["degraded"]
    assert missing["part"] == "reranker" and "no cross-encoder" in missing["message"] and missing["hint"]
    assert answer["passages"]


# -- explain


def test_explain_shows_the_words_the_candidates_the_context_and_the_time(shell: Shell) -> None:
    done = shell.run("explain", QUESTION, "-k", "2")
    words, settings, indexes, _, head, first, verdict, *rest = done.stdout.splitlines()
    assert words.split() == ["words", "long", "·", "chair", "·", "return"]
    assert "20 candidates by words, 40 by meaning, weighted (alpha" in settings and "the best 2" in settings
    assert indexes.split(maxsplit=1) == ["indexes", "up to date"]
    assert head.split() == ["PLACE", "WORDS", "MEANING", "FUSED", "PASSAGE"]
    assert first.split()[0] == "1" and "rules.md" in first and verdict.strip().startswith("window: in the context")
    text = "\n".join(rest)
    assert "── near misses" in text and "beyond the best 2; window: " in text and "dedupe: " in text
    assert " of 6,000 tokens" in text
    time = next(line for line in rest if line.startswith("time"))
    assert all(stage in time for stage in ("keywords", "vectors", "embed", "fuse"))
    assert done.stderr == ""


def test_explain_says_where_alpha_comes_from(own: Shell) -> None:
    def settings(*arguments: str) -> str:
        return own.run("explain", QUESTION, *arguments).stdout.splitlines()[1]

    assert "weighted (alpha 0.45, measured for the model)" in settings()
    assert "weighted (alpha 0.3)" in settings("--alpha", "0.3")
    assert "rrf (alpha 0.5: both count the same)" in settings("--fusion", "rrf")
    service = ("--set", "embed.model=openai-compatible:bge", "--set", "embed.base_url=http://127.0.0.1:9")
    own.run("project", "new", "remote", *service)
    told = own.run("explain", QUESTION, "-p", "remote").stdout.splitlines()[1]
    assert "weighted (alpha 0.7, the default: not measured for this model)" in told


def test_explain_says_why_there_are_no_candidates(shell: Shell) -> None:
    done = shell.run("explain", QUESTION, "--tag", "unheard-of")
    *before, blank, answer = done.stdout.splitlines()
    assert len(before) == 3 and not blank and answer.startswith("answer    none: ")
    assert done.stderr == "Nothing was searched: no file of the project matches the filters\n"


def test_explain_tells_programs_every_candidates_way(shell: Shell) -> None:
    told = shell.json("explain", QUESTION, "-k", "2")
    found = [passage["chunk_id"] for passage in told["passages"]]
    candidates = {each["chunk_id"]: each for each in told["candidates"]}
    assert len(candidates) == len(told["candidates"]) == len(FILES)
    assert [each["chunk_id"] for each in told["candidates"] if each["place"] in (1, 2)] == found
    assert all(each["verdicts"][0]["stage"] == "fuse" for each in candidates.values())
    (repeated,) = (each for each in candidates.values() if each["place"] is None)
    assert repeated["document"] in ("memo.txt", "copy.txt")
    assert any(v["stage"] == "dedupe" and not v["kept"] and v["reason"] for v in repeated["verdicts"])
    assert set(told["near_misses"]) == set(candidates) - set(found)
    assert told["words"] == [["long"], ["chair"], ["return"]]
    assert sum(block["tokens"] for block in told["context"]) <= told["tuning"]["context_tokens"]
    assert told["behind"] == 0 and 0 < told["alpha"] < 1 and told["tuning"]["alpha"] is None
    assert told["replays"] == []


def test_explain_hides_nothing_but_what_it_counts(shell: Shell) -> None:
    short = shell.run("explain", QUESTION, "-k", "1", "--duplicates", "1", "--vector-candidates", "40").stdout
    assert "more candidate" not in short  # one passage and four near misses are all there is
    many = shell.run("explain", QUESTION, "-k", "1", "--all").stdout
    assert all(name in many for name in FILES)


def test_replays_stand_side_by_side(shell: Shell) -> None:
    words, meaning = "alpha=0", "alpha=1"
    told = shell.json("explain", QUESTION, "--duplicates", "1", "--vs", words, "--vs", meaning)
    assert [run["settings"] for run in (told, *told["replays"])] == ["as asked", words, meaning]
    assert [run["alpha"] for run in told["replays"]] == [0, 1]
    by_words, by_meaning = told["replays"]
    assert by_words["passages"][0]["ranks"]["keywords"] == 1 and by_meaning["passages"][0]["ranks"]["vectors"] == 1

    lines = shell.run("explain", QUESTION, "--duplicates", "1", "--vs", words, "--vs", meaning).stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if "PASSAGE" in line)
    assert lines[start].split() == ["AS", "ASKED", "ALPHA=0", "ALPHA=1", "PASSAGE"]
    rows = [line.replace("↑", "").replace("↓", "").split() for line in lines[start + 1 :] if line]
    places = {row[3]: row[:3] for row in rows if len(row) > 3}
    for column, run in enumerate((told, *told["replays"])):
        for place, passage in enumerate(run["passages"], 1):
            assert places[passage["document"]][column] == str(place)


# -- rebuild


def test_rebuild_makes_the_same_indexes_from_nothing(own: Shell) -> None:
    before = own.json("search", QUESTION, "--no-cache")["passages"]
    for folder in (own.workspace / "indexes").glob("*/*"):
        shutil.rmtree(folder)
    done = own.run("rebuild")
    assert done.stdout == "" and done.stderr.startswith("Rebuilt the indexes of default: 5 chunks in ")
    assert own.json("search", QUESTION, "--no-cache")["passages"] == before
    told = own.json("rebuild")
    assert (told["project"], told["chunks"]) == ("default", 5) and told["seconds"] > 0
