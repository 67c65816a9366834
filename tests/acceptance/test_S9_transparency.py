"""S9: of every candidate it is told once whether it was kept, by which stage and why; ephemeral leaves nothing."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragforge import Ragforge
from ragforge.domain.answers import Account, Answer, DecisionEvent, DoneEvent
from ragforge.domain.retrieval import Stage, Tuning
from ragforge.errors import ProviderError
from ragforge.interfaces.cli.main import main
from ragforge.interfaces.fields.explained import CUT, PROMPT, why_fields
from ragforge.interfaces.records import json_text
from ragforge.testing.model_server import SERVER_ERROR, ModelServer
from tests.forge import open_forge, places_of

QUESTION = "When can a chair be sent back?"
CANARY = "wobbegong7731"
FILES = {
    "returns.md": "# Returns\n\nA chair can be sent back within 60 days of its delivery. The van collects it.\n",
    "copy.txt": "# Returns\n\nA chair can be sent back within 60 days of its delivery. The van collects it!\n",
    "memo.md": "# Memo\n\nFrom March a chair can be sent back within 30 days only.\n",
    "shop.toml": '[server]\nport = 8125\nname = "chair"\n',
    **{
        f"stock{number}.md": f"# Stock {number}\n\nRoom {number} holds a chair and {number} lamps. "
        + f"Shelf {number} is painted twice and swept on day {number}. " * 8
        for number in range(12)
    },
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("why")
    (folder / "docs").mkdir()
    for name, text in FILES.items():
        (folder / "docs" / name).write_text(text)
    with open_forge(folder / "workspace") as forge:
        assert not forge.add(folder / "docs", project="p").failed
    return folder / "workspace"


@pytest.fixture
def served() -> Iterator[ModelServer]:
    with ModelServer(reply="Within 60 days of its delivery [1].") as server:
        yield server


@pytest.fixture
def forge(workspace: Path, served: ModelServer) -> Iterator[Ragforge]:
    with opened(workspace, served) as forge:
        yield forge


def opened(workspace: Path, served: ModelServer, **settings: object) -> Ragforge:
    given = {
        "model__name": "openai-compatible:stub",
        "model__base_url": served.base_url,
        "ask__whole_project_tokens": 0,
        **settings,
    }
    return open_forge(workspace, **given)


def told_of(account: Account) -> list[dict[str, Any]]:
    """The candidates as a program gets them."""
    candidates: list[dict[str, Any]] = json.loads(json_text(why_fields(account)))["candidates"]
    return candidates


def require_whole(forge: Ragforge, account: Account, tuning: Tuning) -> set[str]:
    """Every candidate of the search is there once and ends where its verdicts say; the stages that ended one."""
    candidates = told_of(account)
    trace = forge.explain(account.shape.standalone, project="p", tuning=tuning).trace
    assert trace is not None
    assert sorted(each["chunk_id"] for each in candidates) == sorted(each.chunk for each in trace.candidates)
    read = account.sources if account.prompt is None else account.prompt.sources
    assert {each["chunk_id"] for each in candidates if each["kept"]} == {
        chunk for source in read for chunk in source.chunks
    }
    for each in candidates:
        assert each["reason"]
        kept, dropped = ([v["stage"] for v in each["verdicts"] if v["kept"] is way] for way in (True, False))
        if each["kept"]:
            assert not dropped and each["stage"] == kept[-1] and each["source"]
        elif dropped:
            assert each["stage"] == dropped[0] and len(dropped) == 1
        else:
            assert each["stage"] in (CUT, PROMPT)
    return {each["stage"] for each in candidates if not each["kept"]}


@pytest.mark.parametrize("model", ["offline", ""])
@pytest.mark.parametrize("stages", [("shape", "gate"), ("gate",), ()])
@pytest.mark.parametrize("strictness", [0.0, 0.6])
def test_S9_every_candidate_is_accounted_for_once(
    forge: Ragforge, model: str, stages: Collection[str], strictness: float
) -> None:
    for tuning in (Tuning(), Tuning(context_chunks=5, context_tokens=200), Tuning(duplicates=0.6, reranker="cosine")):
        wide = replace(tuning, k=max(10, tuning.context_chunks))
        prompted = forge.prompt(QUESTION, project="p", model=model, stages=stages, strictness=strictness, tuning=tuning)
        ended = require_whole(forge, prompted.account, wide)
        assert ended >= {Stage.DEDUPE, CUT}


def test_S9_each_stage_says_why_it_dropped_a_candidate(forge: Ragforge, served: ModelServer) -> None:
    tuning = Tuning(context_chunks=8, context_tokens=50, k=10)
    order = [each.name for each in forge.search(QUESTION, project="p", tuning=tuning).passages][:8]
    bearing = {"returns.md": "supports", "copy.txt": "supports", "memo.md": "contradicts"}
    verdicts = [
        {"number": n, "direction": bearing.get(name, "no bearing"), "reason": f"of {name}", "confidence": 0.9}
        for n, name in enumerate(order, 1)
    ]
    verdicts[-1]["direction"] = "supports"
    served.forms.append(json.dumps({"verdicts": verdicts}))
    answer = forge.ask(QUESTION, project="p", stages={"gate"}, tuning=tuning)
    assert isinstance(answer, Answer)
    ended = require_whole(forge, answer.account, tuning)
    assert ended == {Stage.DEDUPE, Stage.GATE, Stage.WINDOW, CUT}
    by_stage = {each["stage"]: each["reason"] for each in told_of(answer.account) if not each["kept"]}
    repeats = {each["document"]: each["reason"] for each in told_of(answer.account) if each["stage"] == "dedupe"}
    assert " in returns.md " in repeats.get("copy.txt", "") or " in copy.txt " in repeats.get("returns.md", "")
    assert by_stage["gate"].startswith("no bearing: of stock") and by_stage["window"].startswith("no room")
    assert by_stage["cut"] == "beyond the best 8"


def test_S9_a_source_that_the_window_of_the_model_cannot_hold_is_said(workspace: Path, served: ModelServer) -> None:
    with opened(workspace, served, model__window=1_100, model__max_tokens=200) as forge:
        account = forge.prompt(QUESTION, project="p", stages=()).account
    dropped = [each for each in told_of(account) if each["stage"] == PROMPT]
    assert dropped and {each["reason"] for each in dropped} == {"no room"}
    assert account.prompt is not None and len(account.prompt.left_out) == len({each["source"] for each in dropped})


def test_S9_a_whole_project_keeps_what_a_stage_had_dropped(workspace: Path, served: ModelServer) -> None:
    with opened(workspace, served, ask__whole_project_tokens=20_000) as forge:
        candidates = told_of(forge.prompt(QUESTION, project="p").account)
    assert all(each["kept"] for each in candidates)
    repeats = [each for each in candidates if not all(verdict["kept"] for verdict in each["verdicts"])]
    assert {each["document"] for each in repeats} & {"returns.md", "copy.txt"}
    assert all(each["reason"].startswith("all of its file is there, whatever dedupe said") for each in repeats)


def test_S9_a_stream_tells_the_same_decisions(forge: Ragforge) -> None:
    events = list(forge.stream(QUESTION, project="p", model="offline"))
    done = events[-1]
    assert isinstance(done, DoneEvent)
    assert tuple(event.verdict for event in events if isinstance(event, DecisionEvent)) == done.result.account.verdicts


# -- ephemeral


def test_S9_an_ephemeral_question_leaves_nothing_on_disk(swift_path: Path, served: ModelServer) -> None:
    (swift_path / "docs").mkdir()
    for name in ("returns.md", "shop.toml"):
        (swift_path / "docs" / name).write_text(FILES[name])
    workspace = swift_path / "workspace"
    served.reply = f"Within 60 days, {CANARY} [1]."
    with opened(workspace, served) as forge:
        forge.add(swift_path / "docs", project="p")
        thread = forge.begin_conversation("returns", project="p").id
        forge.ask(QUESTION, project="p", model="offline", conversation=thread)
        asked = f"When can a {CANARY} chair be sent back?"
        for model in ("offline", ""):
            said = forge.ask(asked, project="p", model=model, conversation=thread, ephemeral=True)
            assert CANARY in said.account.question
            forge.prompt(asked, project="p", model=model, conversation=thread)
            forge.explain(asked, project="p")
        served.script(*[SERVER_ERROR] * 8)
        forge.ask(asked, project="p", stages=(), ephemeral=True)
        with pytest.raises(ProviderError):
            forge.ask(f"Does shop.toml name {CANARY}?", project="p", lock=True, ephemeral=True)
        assert len(forge.turns(thread, project="p")) == 1 and len(forge.query_log(project="p")) == 1
        assert any(path.name.endswith("-wal") for path in workspace.iterdir()), "while it is open, there is a WAL"
        assert places_of(CANARY.encode(), workspace) == []
        forge.ask(asked, project="p", model="offline")
        assert places_of(CANARY.encode(), workspace), "what is not ephemeral is found that way"


@pytest.fixture
def shelf(swift_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace for the command line."""
    monkeypatch.setenv("RAGFORGE_EMBED__MODEL", "wordllama")
    monkeypatch.delenv("COLUMNS", raising=False)
    (swift_path / "docs").mkdir()
    for name in ("returns.md", "memo.md", "shop.toml"):
        (swift_path / "docs" / name).write_text(FILES[name])
    assert main(["-w", str(swift_path / "workspace"), "add", str(swift_path / "docs"), "--quiet"]) == 0
    return swift_path / "workspace"


def test_S9_ask_ephemeral_on_the_command_line_leaves_nothing(shelf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = f"When can a {CANARY} chair be sent back?"
    for command in (
        ["ask", asked, "--ephemeral", "--why"],
        ["ask", asked, "--ephemeral", "--json"],
        ["explain", asked],
    ):
        assert main(["-w", str(shelf), *command]) in (0, 4)
        assert "returns.md" in capsys.readouterr().out and places_of(CANARY.encode(), shelf) == [], command
    assert main(["-w", str(shelf), "ask", asked]) in (0, 4)
    assert places_of(CANARY.encode(), shelf), "what is not ephemeral is found that way"


# -- explain, to the end of the path


def explained(shelf: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["-w", str(shelf), "explain", *arguments]) == 0
    return capsys.readouterr().out


def facts(shown: str) -> dict[str, str]:
    """The first line of each fact, by its name."""
    return {line.split()[0]: line[10:] for line in shown.splitlines() if line[:1].isalpha() and line[9:10] == " "}


def test_S9_explain_tells_whether_there_would_be_an_answer_and_why(
    shelf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = facts(explained(shelf, capsys, QUESTION))
    assert told["gate"].endswith(" of 3 passages kept") and ", enough: an answer needs 0.25; " in told["evidence"]
    assert " tokens: Instructions " in told["prompt"] and told["answer"].startswith("would quote sentences of ")
    none = facts(explained(shelf, capsys, "Which enzyme splits lactose in the small intestine?"))
    assert ", too little: an answer needs 0.25" in none["evidence"] and "prompt" not in none
    assert none["answer"].startswith("none: ") and "enzyme" in none["answer"]
    fields = json.loads(explained(shelf, capsys, QUESTION, "--json"))
    assert {"passages", "candidates", "near_misses", "context", "replays", "tuning"} <= set(fields), "as before"
    answer = fields["answer"]
    assert answer["kind"] == "answer" and answer["abstention"] is None and answer["evidence"]["enough"]
    assert [each["chunk_id"] for each in answer["candidates"]] == [each["chunk_id"] for each in fields["candidates"]]


def test_S9_explain_asks_a_model_only_if_it_is_told_to(
    shelf: Path, capsys: pytest.CaptureFixture[str], served: ModelServer
) -> None:
    settings = ("model.name=openai-compatible:stub", f"model.base_url={served.base_url}", "ask.whole_project_tokens=0")
    stub = [word for setting in settings for word in ("--set", setting)]
    shown = explained(shelf, capsys, QUESTION, *stub)
    assert served.calls == [] and "by rules alone; --model openai-compatible:stub lets the model judge" in shown
    proposal = {"standalone": QUESTION, "intent": "lookup", "domain": "chairs", "headers": [], "reason": "it is clear"}
    verdict = {"direction": "supports", "reason": "says so", "confidence": 0.9}
    fact = {"text": "A chair can be sent back within 60 days of its delivery.", "sources": [1]}
    served.forms += [
        json.dumps(proposal),
        json.dumps({"verdicts": [{"number": number, **verdict} for number in (1, 2, 3)]}),
        json.dumps({"facts": [fact], "constraints": [], "open_issues": []}),
        json.dumps(proposal),
    ]
    shown = explained(shelf, capsys, QUESTION, *stub, "--model", "openai-compatible:stub", "--all")
    told = facts(shown)
    assert len(served.calls) == 4 and told["model"].startswith("openai-compatible:stub: 4 calls, ")
    assert "supports: says so" in shown and told["window"] == "3 of 3 passages kept"
    assert told["condensed"] == "Facts:" and f"- {fact['text']} [1]" in shown
    assert told["answer"].startswith("openai-compatible:stub would write it from 1 source")


def test_S9_explain_shows_what_a_conversation_brings(shelf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ragforge.open(shelf) as forge:
        thread = forge.begin_conversation("chairs").id
        for number in range(6):
            forge.ask(QUESTION if number < 2 else f"Which port does server {number} have?", conversation=thread)
        asked, logged = len(forge.turns(thread)), len(forge.query_log())
    shown = explained(shelf, capsys, "When can a chair be sent back by the memo?", "-c", "last")
    told = facts(shown)
    assert told["question"] and told["memory"].endswith(" of 2 earlier parts recalled")
    assert "Recent history " in told["prompt"] and "recall " in shown
    named = facts(explained(shelf, capsys, "Which port does shop.toml name?", "-c", thread))
    assert named["files"].startswith("shop.toml: FULL in the prompt") and named["words"]
    with Ragforge.open(shelf) as forge:
        assert (len(forge.turns(thread)), len(forge.query_log())) == (asked, logged), "nothing is kept"
    assert main(["-w", str(shelf), "explain", QUESTION, "-c", "nobody"]) == 5


@pytest.mark.parametrize("width", [40, 80, 120])
def test_S9_what_is_explained_fits_the_terminal(
    shelf: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for arguments in ((QUESTION,), ("What says shop.toml of enzymes?", "--all")):
        assert max(map(len, explained(shelf, capsys, *arguments).splitlines())) <= max(width, 55)
