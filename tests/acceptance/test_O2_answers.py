"""O2: runs recorded with answers, citation precision and abstention, compared run against run; a model may judge."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from ragforge import Ragforge
from ragforge.domain.access import Clearance
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.conversation import FORGOTTEN_ANSWER
from ragforge.domain.evaluation import AnswerKind, AnswerResult, ImportReport, Run
from ragforge.domain.library import Progress
from ragforge.domain.records import ProjectTextKind
from ragforge.errors import UserError
from ragforge.evaluate.report import page
from ragforge.interfaces.cli.main import main
from ragforge.testing.model_server import NORMAL, SERVER_ERROR, STALL, UNAUTHORIZED, ModelServer
from tests.forge import faults, open_forge, places_of

FILES = {
    "returns.md": "# Returns\n\nA chair can be sent back within 60 days of its delivery. The van collects it.\n",
    "founders.md": "# Company\n\nThe company was founded in 1987 by Inge and Klaus Petersen in Husum.\n",
    "lamps.md": "# Lamps\n\nA lamp that fails within two years is mended without cost.\n",
    "mattresses.md": "# Mattresses\n\nA mattress can be sent back within 100 nights of its delivery.\n",
}
FOUNDERS = "Who founded the company?"
LAMP = "What happens with a lamp that fails?"
MERCURY = "What is the boiling point of mercury?"
QUESTIONS: list[dict[str, object]] = [
    {"id": "founders", "question": FOUNDERS, "documents": ["founders"], "answers": ["Klaus Petersen", "nobody"]},
    {"id": "lamp", "question": LAMP, "documents": ["lamps"], "answer": "replaced by a new one"},
    {"id": "mercury", "question": MERCURY, "answerable": False},
    {"id": "cellar", "question": "How deep is the cellar under the opera house?", "documents": []},
]


def write(path: Path, lines: list[dict[str, object]] | None = None) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines or QUESTIONS))
    return path


def imported(forge: Ragforge, path: Path) -> ImportReport:
    *_, report = forge.importing_questions(path, project="p")
    assert isinstance(report, ImportReport)
    return report


def evaluated(forge: Ragforge, questions: str = "shop", **how: Any) -> Run:
    *_, run = forge.evaluating(questions, project="p", **{"answers": True, **how})
    assert isinstance(run, Run)
    return run


def answers(forge: Ragforge, run: str = "last") -> dict[str, AnswerResult]:
    results = forge.evaluation(run, project="p").results
    return {result.question: result.answer for result in results if result.answer}


def filled(workspace: Path, **settings: object) -> Ragforge:
    """A workspace with the files and the questions above."""
    docs = workspace.parent / "docs"
    docs.mkdir(exist_ok=True)
    for name, text in FILES.items():
        (docs / name).write_text(text)
    forge = open_forge(workspace, **settings)
    forge.add(docs, project="p")
    imported(forge, write(workspace.parent / "shop.jsonl"))
    return forge


@pytest.fixture
def forge(swift_path: Path) -> Iterator[Ragforge]:
    with filled(swift_path / "workspace") as forge:
        yield forge


def test_O2_a_run_keeps_the_answers_and_how_good_they_were(forge: Ragforge) -> None:
    events = list(forge.evaluating("shop", project="p", answers=True))
    assert [(e.stage, e.done, e.total) for e in events[:-1] if isinstance(e, Progress)] == [
        ("answering", done, 4) for done in range(1, 5)
    ]
    run = events[-1]
    assert isinstance(run, Run) and run.settings["model"] == "offline"
    shares = {name: value for name, value in run.answers.items() if name != "answer_ms"}
    assert shares == {
        "answered": 1, "answer_hit": 0.5, "citation_precision": 1, "abstention": 1, "false_answers": 0,
        "false_abstentions": 0, "tokens": 0, "cost": 0,
    }  # fmt: skip
    assert run.answers["answer_ms"] > 0 and run.metrics["hit@1"] == 1, "what was found is measured as ever"
    with open_forge(forge.workspace) as again:
        assert again.evaluations(project="p") == [run]
        kept = answers(again)
        founders = kept["founders"]
        assert (founders.kind, founders.expected) == (AnswerKind.QUOTE, ("Klaus Petersen", "nobody"))
        assert founders.text.startswith("The company was founded in 1987 by Inge and Klaus Petersen in Husum. [")
        (chunk,) = again.chunks("founders.md", project="p")
        assert [(p.chunk, p.name, p.proved) for p in founders.cited] == [(chunk.id, "founders.md", True)]
        assert kept["lamp"].metrics["answer_hit"] == 0
        assert [kept[id].kind for id in ("mercury", "cellar")] == [AnswerKind.ABSTENTION] * 2
        assert [kept[id].has_answer for id in kept] == [True, True, False, False]


def test_O2_nothing_is_kept_but_the_run(forge: Ragforge) -> None:
    evaluated(forge)
    assert forge.query_log(project="p") == [] and forge.conversations(project="p") == []


def test_O2_settings_tell_what_answers_depend_on(forge: Ragforge) -> None:
    plain, asked, again = evaluated(forge, answers=False), evaluated(forge), evaluated(forge)
    assert plain.answers == {} and "model" not in plain.settings
    assert plain.settings_hash != asked.settings_hash == again.settings_hash
    assert asked.settings.items() >= {"stages": "condense, gate, inject, memory, shape", "judge": ""}.items()
    forge.write_project_text(ProjectTextKind.HARD_RULES, "Answer in one line.", project="p")
    assert evaluated(forge).settings_hash != asked.settings_hash
    (forge.workspace / "templates").mkdir()
    shipped = Path(__file__).parents[2] / "src/ragforge/assemble/templates/system.md"
    (forge.workspace / "templates/system.md").write_text(shipped.read_text() + "\nBe brief.\n")
    assert evaluated(forge).settings["templates"] != asked.settings["templates"]


def test_O2_answers_need_no_known_documents(forge: Ragforge, tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [{"question": FOUNDERS}, {"question": LAMP, "answer": "mended"}]
    imported(forge, write(tmp_path / "open.jsonl", lines))
    with pytest.raises(UserError, match="no question of open says which documents") as refused:
        evaluated(forge, "open", answers=False)
    assert "--answers" in refused.value.hint
    run = evaluated(forge, "open")
    assert run.metrics == {} and run.answers["answered"] == 1 and run.answers["answer_hit"] == 1
    details = forge.evaluation("last", project="p")
    comparison = forge.compare_evaluations("last", "last", project="p")
    assert "1.000</b><span>Answered" in page(details, comparison)


def test_O2_false_answers_and_false_abstentions_are_counted(forge: Ragforge, tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [
        {"id": "false answer", "question": FOUNDERS, "answerable": False},
        {"id": "false abstention", "question": MERCURY, "documents": ["lamps"], "answers": ["357"]},
    ]
    imported(forge, write(tmp_path / "wrong.jsonl", lines))
    run = evaluated(forge, "wrong")
    expected = {"answered": 0, "answer_hit": 0, "abstention": 0, "false_answers": 1, "false_abstentions": 1}
    assert run.answers.items() >= expected.items()


# -- with a model


def says(prompt: str) -> str:
    """A model that answers one question well, one with something made up, and sees that one has no answer."""
    if FOUNDERS in prompt:
        return "It was founded by Inge and Klaus Petersen [1]. That was on Mars in 2050 [1]."
    return "NOT IN THE SOURCES: they speak of lamps only." if LAMP in prompt else "It is 357 degrees."


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(reply=says) as server:
        yield server


@pytest.fixture
def served(swift_path: Path, server: ModelServer) -> Iterator[Ragforge]:
    """Only the answer itself is asked of the model, so that the forms it fills are the judge's."""
    model = {"model__name": "openai-compatible:stub", "model__base_url": server.base_url, "ask__stages": "inject"}
    with filled(swift_path / "workspace", **model) as forge:
        yield forge


def opinion(relevance: int, clarity: int, faithfulness: int, why: str = "so") -> str:
    return json.dumps(
        {
            "relevance_reason": why, "relevance": relevance,
            "clarity_reason": why, "clarity": clarity,
            "faithfulness_reason": why, "faithfulness": faithfulness,
        }
    )  # fmt: skip


def test_O2_answers_of_a_model(served: Ragforge, server: ModelServer) -> None:
    run = evaluated(served)
    kept = answers(served)
    assert [kept[id].kind.value for id in kept] == ["answer", "abstention", "abstention", "abstention"]
    assert kept["founders"].metrics["citation_precision"] == 0.5, "of two cited sentences one is proved"
    assert kept["lamp"].text.startswith("The passages that were found do not answer that: they speak of lamps only")
    assert run.answers["false_abstentions"] == run.answers["answered"] == 0.5
    assert run.settings["model"] == "openai-compatible:stub" and len(server.calls) == 2
    spent = [kept[id].metrics["tokens"] for id in kept]
    assert spent[0] > 0 and spent[1] > 0 and spent[2:] == [0, 0], "too little evidence asks no model"
    assert run.answers["tokens"] == pytest.approx(sum(spent) / 4)
    assert evaluated(served, model="offline").settings["model"] == "offline" and len(server.calls) == 2


def test_O2_what_answers_cost(swift_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model on this machine costs nothing, so this one is reached elsewhere: by way of a proxy."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    elsewhere = {"model__base_url": "http://models.test/v1", "model__proxy": server.root_url, "ask__stages": "inject"}
    for name, is_priced in (("openai:gpt-4o-mini", True), ("openai-compatible:stub", False)):
        with filled(swift_path / "workspace", model__name=name, **elsewhere) as forge:
            run = evaluated(forge)
            kept = answers(forge)
            assert ("cost" in kept["founders"].metrics) is is_priced, "nobody knows the price of somebody's service"
            assert kept["mercury"].metrics["cost"] == 0, "no model was asked"
            assert ("cost" in run.answers) is is_priced
            if is_priced:
                assert run.answers["cost"] == pytest.approx(sum(each.metrics["cost"] for each in kept.values()) / 4)
                assert 0 < run.answers["cost"] < 0.01


def test_O2_a_judge_says_what_it_thinks_of_each_answer(served: Ragforge, server: ModelServer) -> None:
    server.forms.append(opinion(5, 4, 1, "made up"))
    run = evaluated(served, judge="")
    assert (run.answers["relevance"], run.answers["clarity"], run.answers["faithfulness"]) == (1, 0.75, 0)
    judged = answers(served)["founders"].judgement
    assert judged is not None and (judged.relevance, judged.clarity, judged.faithfulness) == (5, 4, 1)
    assert judged.reasons["clarity"] == "made up" and judged.tokens > 0
    assert run.settings["judge"] == run.settings["model"] == "openai-compatible:stub"
    (asked,) = [call for call in server.calls if "You judge an answer" in call.prompt]
    data = json.loads(asked.json["messages"][1]["content"])
    assert data["answer"] == answers(served)["founders"].text
    assert any(FILES["founders.md"].splitlines()[-1] in passage["text"] for passage in data["passages"])
    told = [call.headers["x-request-id"] for call in server.calls]
    assert asked.headers["x-request-id"] in told[:1], "the judge's call has the request id of the answer it judges"


def test_O2_another_model_may_judge(served: Ragforge, server: ModelServer) -> None:
    run = evaluated(served, model="offline", judge="openai-compatible:other")
    assert (run.settings["model"], run.settings["judge"]) == ("offline", "openai-compatible:other")
    assert {call.json["model"] for call in server.calls} == {"other"} and len(server.calls) == 2, "one for each quote"
    with pytest.raises(UserError, match="no model that could judge"):
        evaluated(served, judge="offline")


def test_O2_a_judge_without_a_model_is_refused_before_anything_runs(forge: Ragforge) -> None:
    with pytest.raises(UserError, match="no model that could judge") as refused:
        evaluated(forge, judge="")
    assert "--judge-model" in refused.value.hint and forge.evaluations(project="p") == []


def test_O2_a_judge_that_fails_is_counted(served: Ragforge, server: ModelServer) -> None:
    server.script(NORMAL, SERVER_ERROR, SERVER_ERROR)
    run = evaluated(served, judge="")
    founders = answers(served)["founders"]
    assert founders.judgement is None and founders.unjudged and founders.text.startswith("It was founded by Inge")
    assert "relevance" not in run.answers and run.answers["citation_precision"] == 0.5


def test_O2_a_model_that_fails_leaves_quotes_and_says_so(served: Ragforge, server: ModelServer) -> None:
    server.always = UNAUTHORIZED
    run = evaluated(served)
    kept = answers(served)
    assert kept["founders"].kind is AnswerKind.QUOTE and kept["founders"].degraded == ("model",)
    assert run.answers["answered"] == 1 and kept["mercury"].degraded == ()


def test_O2_a_question_that_comes_to_nothing_does_not_end_the_run(swift_path: Path, server: ModelServer) -> None:
    model = {"model__name": "openai-compatible:stub", "model__base_url": server.base_url, "model__window": 1_100}
    with filled(swift_path / "workspace", **model, ask__stages="inject") as forge:
        run = evaluated(forge)
        kept = answers(forge)
        assert kept["founders"].kind is AnswerKind.FAILED and "tokens" in kept["founders"].text
        assert run.answers["answered"] == 0 and run.answers["abstention"] == 1
        assert "false_abstentions" not in run.answers, "nothing was decided"


@pytest.mark.parametrize("during", ["answer", "judgement"])
def test_O2_a_run_that_is_stopped_leaves_nothing(served: Ragforge, server: ModelServer, during: str) -> None:
    server.script(*([STALL] if during == "answer" else [NORMAL, STALL]))
    cancel = Cancel()
    waiting = threading.Thread(target=_set_when, args=(cancel, server, 1 if during == "answer" else 2))
    waiting.start()
    began = time.monotonic()
    with pytest.raises(Cancelled):
        evaluated(served, judge="", cancel=cancel)
    waiting.join()
    assert time.monotonic() - began < 20
    assert served.evaluations(project="p") == [] and served.query_log(project="p") == []


def _set_when(cancel: Cancel, server: ModelServer, calls: int) -> None:
    while len(server.calls) < calls:
        time.sleep(0.01)
    cancel.set()


# -- two runs, removal, clearance


def test_O2_answers_are_compared_run_against_run(served: Ragforge) -> None:
    evaluated(served, label="model")
    evaluated(served, model="offline", label="offline")
    evaluated(served, answers=False, label="search")
    comparison = served.compare_evaluations("model", "offline", project="p")
    changes = {change.metric: change for change in comparison.answers}
    assert (changes["answered"].before, changes["answered"].after, changes["answered"].wins) == (0.5, 1, 1)
    assert (changes["false_abstentions"].wins, changes["false_abstentions"].less_is_better) == (1, True)
    assert changes["citation_precision"].wins == 1 and changes["tokens"].wins == 2
    assert all(0 < change.p <= 1 and change.low <= change.difference <= change.high for change in changes.values())
    assert [(q.question, q.before, q.after) for q in comparison.changed_answers] == [
        ("lamp", "false abstention", "missed"),
        ("founders", "unproved", "hit"),
    ]
    assert comparison == served.compare_evaluations("model", "offline", project="p"), "the same every time"
    without = served.compare_evaluations("search", "offline", project="p")
    assert without.answers == () and without.notice == "only one of the runs has answers"


def test_O2_a_removed_document_leaves_no_words_in_a_run(swift_path: Path, server: ModelServer) -> None:
    canary = "zanzibarquokka"
    model = {"model__name": "openai-compatible:stub", "model__base_url": server.base_url, "ask__stages": "inject"}
    server.reply = f"It was founded by a {canary} [1]."
    with filled(swift_path / "workspace", **model) as forge:
        secret = swift_path / "secret.md"
        secret.write_text(f"# Secret\n\nThe company was founded by Klaus Petersen and the {canary} in Husum.\n")
        forge.add(secret, project="p")
        server.forms.append(opinion(5, 5, 5, f"the {canary} is named"))
        run = evaluated(forge, judge="", label="model")
        evaluated(forge, model="offline", label="offline")
        assert canary in answers(forge, "model")["founders"].text
        (removal,) = forge.removing(["secret.md"], project="p")
        assert removal.remains == () and removal.pending == ()
        assert places_of(canary.encode(), forge.workspace) == [] and faults(forge) == []
        founders = answers(forge, "model")["founders"]
        assert founders.text == FORGOTTEN_ANSWER and founders.metrics["relevance"] == 1
        assert founders.judgement is not None and founders.judgement.reasons == {}
        assert "Klaus Petersen" in answers(forge, "offline")["founders"].text, "it quotes another document"
        assert forge.evaluation("model", project="p").run == run, "the figures stay"


def test_O2_a_lower_clearance_sees_no_words_of_what_is_above_it(served: Ragforge) -> None:
    evaluated(served, label="model")
    evaluated(served, model="offline", label="offline")
    served.label(["founders.md"], confidentiality=Clearance.RESTRICTED, project="p")
    guest = Ragforge(served._parts, replace(served._scope, clearance=Clearance.INTERNAL))
    for label in ("model", "offline"):
        details = guest.evaluation(label, project="p")
        comparison = guest.compare_evaluations("model", "offline", project="p")
        for shown in (json.dumps([asdict(each) for each in details.results]), page(details, comparison)):
            assert "Petersen" not in shown and "founders.md" not in shown
        assert "some documents are not shown" in page(details)
        assert len(comparison.answers) > 5 and details.run.answers["answered"] > 0


# -- the command line


class Shell:
    """Runs `ragforge` in this process."""

    def __init__(self, workspace: Path, capture: pytest.CaptureFixture[str]) -> None:
        self._where = ("-w", str(workspace), "-p", "p")
        self._capture = capture

    def run(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        self._capture.readouterr()
        returned = main((*self._where, *arguments))
        said = self._capture.readouterr()
        assert returned == code, f"{arguments}: {returned}\n{said}"
        return said.out, said.err

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.run(*arguments, "--json", code=code)[0])


@pytest.fixture
def shell(
    swift_path: Path, server: ModelServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    monkeypatch.chdir(swift_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    for name, value in {
        "EMBED__MODEL": "wordllama",
        "MODEL__NAME": "openai-compatible:stub",
        "MODEL__BASE_URL": server.base_url,
        "ASK__STAGES": "inject",
    }.items():
        monkeypatch.setenv(f"RAGFORGE_{name}", value)
    docs = swift_path / "docs"
    docs.mkdir()
    for name, text in FILES.items():
        (docs / name).write_text(text)
    shell = Shell(swift_path / "workspace", capsys)
    shell.run("add", "docs")
    shell.run("eval", "import", str(write(swift_path / "shop.jsonl")))
    return shell


def test_O2_answers_from_the_command_line(shell: Shell, server: ModelServer, swift_path: Path) -> None:
    server.forms.append(opinion(5, 4, 1, "made up"))
    out, said = shell.run("eval", "run", "shop", "--answers", "--judge", "--label", "model")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    for line in ("answered 0.5000 2", "answer_hit 0.5000 2", "citation_precision 0.5000 1", "abstention 1.0000 2",
                 "false_abstentions 0.5000 2", "faithfulness 0.0000 1"):  # fmt: skip
        assert line in lines
    assert "1 answer, 3 abstentions, 1 false abstention, half within " in out and "for the judge " in out
    assert "model openai-compatible:stub, judge openai-compatible:stub (its own judge)\n" in out and "Kept as" in said
    out, _ = shell.run("eval", "show", "model")
    assert f"false abstention  {LAMP}\n      said      The passages that were found do not answer that" in out
    assert "      expected  Klaus Petersen | nobody\n      cited     founders.md\n" in out
    assert "judge     relevance 5, clarity 4, faithfulness 1; clarity: made up; faithfulness: made up\n" in out
    assert out.index("false abstention  ") < out.index("unproved  ") < out.index("right abstention  ")
    assert "said" not in shell.run("eval", "show", "model", "--questions", "0")[0]
    shell.run("eval", "run", "shop", "--answers", "--model", "offline", "--label", "offline", "--quiet")
    out, said = shell.run("eval", "compare", "model", "offline", "--html", "page.html")
    assert "model openai-compatible:stub -> offline" in out
    assert "\nANSWERS " in out and "\nfalse_abstentions  " in out and "\ntokens " in out
    assert f"answers that changed, the losses first\nfalse abstention -> missed  {LAMP}\n" in out
    assert "Note: only one of the runs has clarity, faithfulness, relevance" in said
    assert "Answers that changed" in (swift_path / "page.html").read_text()
    shown = shell.json("eval", "show", "model")
    assert shown["run"]["answers"]["answered"] == 0.5
    assert shown["results"][0]["answer"]["judgement"]["reasons"]["clarity"] == "made up"
    compared = shell.json("eval", "compare", "model", "offline")["comparison"]
    assert {change["metric"] for change in compared["answers"]} >= {"answered", "abstention", "tokens", "answer_ms"}
    assert "0.5000" in shell.run("eval", "ls")[0]


def test_O2_gates_on_answers_by_name(shell: Shell) -> None:
    offline = ("eval", "run", "shop", "--answers", "--model", "offline")
    out, _ = shell.run(*offline, "--fail-under", "abstention=0.9", "--fail-under", "answer-hit=.4")
    assert "✓ abstention 1.0000 reaches 0.9\n✓ answer_hit 0.5000 reaches 0.4\n" in out
    out, _ = shell.run(*offline, "--fail-under", "answer_hit=0.6", "--fail-under", "hit@1=1", code=1)
    assert "✗ answer_hit 0.5000 is under 0.6\n✓ hit@1 1.0000 reaches 1\n" in out
    runs = len(shell.json("eval", "ls")["runs"])
    for wrong, says in (
        ("false_answers=0.1", "false_answers is better the lower it is\nNext: write --fail-under abstention=0.9\n"),
        ("false_abstentions=0.2", "is better the lower it is\nNext: write --fail-under answered=0.8\n"),
        ("tokens=0.5", "tokens is no share, and better the lower it is\nNext: ragforge eval compare"),
        ("clarity=0.5", "clarity is the opinion of a judge\nNext: add --judge\n"),
        ("speed=0.5", "has no metric 'speed'\nNext: use one of: ndcg@1, "),
    ):
        assert says in shell.run(*offline, "--fail-under", wrong, code=2)[1]
    _, said = shell.run("eval", "run", "shop", "--fail-under", "abstention=0.5", code=2)
    assert "abstention is a metric of answers\nNext: add --answers\n" in said
    for option in (("--model", "offline"), ("--judge",), ("--judge-model", "x:y")):
        assert " needs --answers\nNext: add --answers" in shell.run("eval", "run", "shop", *option, code=2)[1]
    assert len(shell.json("eval", "ls")["runs"]) == runs, "refused before anything ran"


def test_O2_a_gate_that_no_question_can_be_judged_by(shell: Shell, swift_path: Path) -> None:
    shell.run("eval", "import", str(write(swift_path / "one.jsonl", [{"question": MERCURY, "documents": ["lamps"]}])))
    run = ("eval", "run", "one", "--answers", "--model", "offline")
    for metric, hint in (("abstention", '"answerable": false'), ("answer_hit", '"answers"')):
        _, said = shell.run(*run, "--fail-under", f"{metric}=0.5", code=2)
        assert f"no question of one can be judged by {metric}\nNext: give it questions with {hint}\n" in said
    out, _ = shell.run(*run, "--fail-under", "citation_precision=0.5", code=1)
    assert "✗ citation_precision could not be measured on any question\n" in out, "it abstained, and cited nothing"


def test_O2_a_model_that_was_missing_is_told(shell: Shell, server: ModelServer) -> None:
    server.always = UNAUTHORIZED
    out, said = shell.run("eval", "run", "shop", "--answers")
    assert "2 quotes, 2 abstentions, 2 answered without the model, " in out
    assert "tells what was missing, and why" in said and f"'{FOUNDERS}'" in said
