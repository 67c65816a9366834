"""A whole interview of twenty turns over the sample documents: offline, and with a scripted model by tools."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ragforge import Ragforge
from ragforge.answer.artifacts import markdown
from ragforge.discover import context
from ragforge.discover.route import Routing
from ragforge.domain.discovery import InterviewTurn, Standing
from ragforge.testing.model_server import ModelServer
from tests.forge import open_forge
from tests.proof import record
from tests.served import open_served

SAMPLES = Path(__file__).parents[2] / "src" / "ragforge" / "samples"


class Said(NamedTuple):
    """What the person says, and what is expected of the turn."""

    message: str
    probe: str
    filler: bool = False
    mode: str = "problem"


SCRIPT = (
    Said(
        "We are Nordlicht Möbel, a furniture maker in Flensburg with two showrooms. Returns have grown since "
        "spring and support is swamped. I lead customer service, and the warehouse team is involved too.",
        "framing",
    ),
    Said(
        "Customers get told different return windows by showrooms and by the website. What we leave out is "
        "damage in transport. Last autumn we tried a new FAQ page, and it failed because nobody read it.",
        "framing",
    ),
    Said(
        "In March the window was changed from 30 to 60 days, and complaints started then.",
        "people",
    ),
    Said("continue", "people", filler=True),
    Said(
        "The showroom staff and support agents suffer most. A buyer in Hamburg was trying to send back a "
        "chair after 40 days, and her move depended on it. I interviewed six support agents in October.",
        "people",
    ),
    Said(
        "Karin Petersen, the head of operations, decides and pays for it. Legal could block new wording. The "
        "showroom managers would lose their discretion.",
        "stakeholders",
    ),
    Said("that makes sense, move on", "stakeholders", filler=True),
    Said(
        "Last Tuesday an agent looked into the wiki, then asked the warehouse by phone, then wrote a mail. It "
        "got stuck waiting for the warehouse. Agents keep a private spreadsheet as a workaround. The ticket "
        "system and the shop software are the tools.",
        "current-state",
    ),
    Said(
        "I think most cases come from the old memo of 2023 that is still used in the showrooms.",
        "current-state",
    ),
    Said(
        "If the old memo is still used in the showrooms, training will certainly fix most cases.",
        "root-cause",
    ),
    Said("A1 is wrong: we checked, only 5 of 40 tickets mention the memo.", "root-cause"),
    Said(
        "Rules are copied into four places and nobody owns them, because there is no owner of the website. I "
        "don't know what else.",
        "impact",
    ),
    Said("yes", "impact", filler=True),
    Said(
        "About 40 tickets a week are about returns. It costs us 13 hours a week, roughly 600 euros. We "
        "counted them in the ticket system in June. If we do nothing it will get worse before Christmas.",
        "success",
    ),
    Said(
        "We must not change the shop system before January, and the budget is 10,000 euros at maximum. "
        "Success means fewer than 10 tickets a week by March. Refund speed must not get worse.",
        "success",
    ),
    Said("go on", "success", filler=True),
    Said("Agents are judged by the number of closed tickets, so they rush.", "success"),
    Said("yes, let us go on", "outcome", mode="solution"),
    Said(
        "We want one place where the return rule of an order can be looked up. The goal is to halve tickets by March.",
        "outcome",
        mode="solution",
    ),
    Said("What do you mean?", "outcome", filler=True, mode="solution"),
)


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Ragforge]:
    with open_forge(tmp_path / "ws") as forge:
        forge.create_project("demo", embedder="wordllama")
        assert not forge.add(SAMPLES, project="demo").failed
        yield forge


def budget_holds(done: InterviewTurn) -> None:
    account = done.account
    assert account.phase_b_tokens <= context.MOST_TOKENS
    assert account.phase_a_tokens < 2_000
    names = [section.name for section in account.sections]
    order = (
        "Core instructions", "Context block", "Assumption register", "Document skeleton", "Routing context",
        "Recent conversation", "Probe", "Pattern", "Earlier exchanges", "Passages", "Decision", "Message",
    )  # fmt: skip
    places = [order.index(name) for name in names]
    assert places == sorted(places), "the order is fixed"
    assert {"Core instructions", "Assumption register", "Document skeleton", "Routing context", "Probe"} <= set(names)


def labels_hold(done: InterviewTurn, titles: dict[str, str]) -> None:
    """What was brought back is older than the last two turns, in the order of time, under its number and probe."""
    recalled = done.account.recalled
    assert all(number < done.turn.number - 2 for number in recalled)
    assert list(recalled) == sorted(recalled) and len(recalled) <= 3
    earlier = [each.text for each in done.account.sections if each.name == "Earlier exchanges"]
    assert bool(earlier) == bool(recalled)
    if earlier:
        found = re.findall(r"^Turn (\d+) \(Probe: (.+)\):$", earlier[0], re.MULTILINE)
        assert [int(number) for number, _ in found] == list(recalled)
        assert all(title in titles.values() for _, title in found)
        assert earlier[0].count("\nUser: ") == earlier[0].count("\nAssistant: ") == len(recalled)


def test_G_an_interview_of_twenty_turns_offline(forge: Ragforge, tmp_path: Path) -> None:
    talk = forge.discovery
    interview = talk.begin("Returns", project="demo")
    titles = {key: each.title for mode in talk.modes().values() for key, each in mode.probes.items()}
    done: list[InterviewTurn] = []
    for said in SCRIPT:
        one = talk.say(said.message, interview.id, project="demo")
        done.append(one)
        decision = one.account.decision
        assert (decision.probe, decision.filler, decision.mode) == (said.probe, said.filler, said.mode), one.turn
        assert decision.requires_retrieval is not said.filler
        assert (one.account.searches == 0) is said.filler, "filler searches nothing"
        assert one.turn.number == len(done) and one.state.version == len(done) + 1
        assert one.turn.summary and one.turn.probe == said.probe and one.turn.mode == said.mode
        budget_holds(one)
        labels_hold(one, titles)
        new = [each for each in one.state.asked if each.turn == one.turn.number and not each.answered]
        assert len(new) <= 3 and (new or one.state.offer or "?" in one.turn.answer)
    skipped = sum(each.account.searches == 0 for each in done)
    assert skipped == sum(said.filler for said in SCRIPT)
    texts = [each.text for each in done[-1].state.asked]
    assert len(set(texts)) == len(texts), "nothing is asked twice"

    # -- the register: A2 rests on A1, which fell
    state = done[-1].state
    first, second = state.assumptions[:2]
    assert first.status is Standing.REFUTED and "5 of 40" in first.evidence[0].text
    assert second.depends_on == (first.id,) and second.status is Standing.SHAKEN
    assert "A2 rests on it and is shaken" in done[10].turn.answer

    # -- the document: every section of the problem brief has something, every point its source
    brief = talk.document(interview.id, project="demo", mode="problem")
    assert not [section.heading for section in brief.sections if section.open]
    for section in brief.sections[:-2]:
        assert all(re.search(r"\[\d+\]$", line) for line in section.text.splitlines()), section
    text = markdown(brief)
    assert "| A1 |" in text and "refuted" in text and "shaken" in text
    assert "# Open questions" in text
    assert any(source.document for source in brief.sources), "the documents are quoted, too"
    assert {f"Interview, turn {number}" for number in (1, 2, 5)} <= {source.name for source in brief.sources}
    for point in state.points:
        if not point.cited:
            assert point.text.rstrip(" …") in " ".join(done[point.turn - 1].turn.question.split())
    for source in brief.sources:
        if source.document:
            whole = forge.text(source.document, project="demo")
            assert " ".join(source.text.split()) in " ".join(whole.split())

    # -- both formats
    for ending in (".md", ".docx"):
        talk.document(interview.id, project="demo", mode="problem", out=tmp_path / f"brief{ending}")
    assert (tmp_path / "brief.md").read_text() == text
    with zipfile.ZipFile(tmp_path / "brief.docx") as word:
        body = word.read("word/document.xml").decode()
    assert "<w:tbl>" in body and "refuted" in body
    kept = talk.document(interview.id, project="demo", keep=True)
    assert kept.kind == "product-requirements" and forge.artifact(kept.id, project="demo") == kept
    record(
        "discovery_offline",
        turns=len(done),
        without_retrieval=skipped,
        most_tokens=max(each.account.phase_b_tokens for each in done),
        points=len(state.points),
        assumptions=len(state.assumptions),
    )


# -- with a model that works by tools


FILES = {
    "rules.md": "# Returns\n\nMost furniture may be returned within 60 days.\n\nLegal owns the rule since March.\n",
    "report.md": "# Report\n\nThe return rate rose to 6.8 percent in the second quarter.\n\nA return costs 61 euros.\n",
}


def _point(text: str, criterion: str, *sources: int) -> dict[str, Any]:
    return {"text": text, "criterion": criterion, "sources": list(sources)}


class Model:
    """A script: for each turn what is decided, and the calls that a model makes, by what it is asked."""

    def __init__(self) -> None:
        self.server = ModelServer()
        self.steps: dict[int, int] = {}

    def expect(self, probe: str, turn: int, *, mode: str = "problem", synthesis: bool = False) -> None:
        self.turn, self.probe = turn, probe
        self.steps[turn] = 0
        routing = Routing(probe, ["customer-service"], mode, synthesis, True, "scripted")
        self.server.forms.append(json.dumps(asdict(routing)))
        self.server.forms.append(json.dumps({"summary": f"Turn {turn} spoke of {probe}."}))

    def act(self, body: dict[str, Any]) -> list[tuple[str, str]]:
        step = self.steps[self.turn]
        self.steps[self.turn] += 1
        said = body["messages"][1]["content"]
        number = next((int(each) for each in re.findall(r"\[(\d)\] report\.md", said)), 0)
        if step == 0:
            return self._first(number)
        return [
            ("ask_questions", json.dumps({
                "reply": f"Understood{f', the rate is 6.8 percent [{number}]' if number else ''}.",
                "questions": [
                    {"text": f"Who would tell me more about matter {self.turn}?", "criterion": ""},
                    {"text": f"What happened on day {self.turn} of the last case?", "criterion": ""},
                ],
                "criteria_met": ["nonsense"],
            })),
        ]  # fmt: skip

    def _first(self, number: int) -> list[tuple[str, str]]:
        """Good calls among bad ones: each of these is refused in its own way."""
        turn = self.turn
        calls: list[tuple[str, dict[str, Any]]] = [
            ("register_assumption", {
                "statement": f"Claim number {turn} about showroom {turn} holds for all of them",
                "confidence": "low", "impact": "high", "depends_on": [f"A{turn - 1}"] if turn > 1 else [],
            }),
            ("register_assumption", {"statement": "No level", "confidence": "huge", "impact": "high"}),
            ("update_assumption", {"id": "A1", "depends_on": [f"A{turn}"]}),
            ("fill_section", {"section": "nowhere", "points": [_point("The return rate in the showrooms.", "")]}),
            ("fill_section", {"section": "impact", "points": [_point("Aliens pay for the warehouse roof.", "")]}),
            ("fly_to_the_moon", {}),
            ("ask_questions", {"reply": "Too many.", "questions": [{"text": f"Q{n}?"} for n in range(5)]}),
            ("update_org_context", {"text": "A bank in Zürich with nine branches."}),
        ]  # fmt: skip
        if number:
            calls.append(("fill_section", {"section": "impact", "points": [
                _point("The return rate rose to 6.8 percent in the second quarter.", "frequency", number),
                _point("The return rate rose to 99 percent.", "frequency", number),
            ]}))  # fmt: skip
        return [(name, json.dumps(given)) for name, given in calls]


def test_G_an_interview_of_twenty_turns_by_tools(tmp_path: Path) -> None:
    model = Model()
    model.server.act = model.act
    with model.server as server, open_served(tmp_path / "ws", server) as forge:
        folder = tmp_path / "files"
        folder.mkdir()
        for name, text in FILES.items():
            (folder / name).write_text(text)
        assert not forge.add(folder, project="p").failed
        talk = forge.discovery
        interview = talk.begin("Returns", project="p")
        titles = {key: each.title for mode in talk.modes().values() for key, each in mode.probes.items()}
        probes = ["framing"] * 3 + ["people"] * 3 + ["impact"] * 14
        done: list[InterviewTurn] = []
        for turn, probe in enumerate(probes, 1):
            filler = turn % 5 == 0
            if not filler:
                model.expect(probe, turn, synthesis=turn % 4 == 0)
            else:
                model.turn, model.steps[turn] = turn, 0
            before = len(server.calls)
            message = "continue" if filler else f"In week {turn} the return rate in the showrooms was our topic."
            one = talk.say(message, interview.id, project="p")
            done.append(one)
            decision = one.account.decision
            assert decision.filler is filler and (one.account.searches == 0) is filler
            assert filler or (decision.probe == probe and decision.by and decision.patterns == ("customer-service",))
            budget_holds(one)
            labels_hold(one, titles)
            for call in server.calls[before:]:
                assert len(call.prompt) // 4 < context.MOST_TOKENS
            assert one.account.model and one.account.usage.calls >= 2
            assert filler or one.turn.summary == f"Turn {turn} spoke of {probe}."
            questions = [each for each in one.state.asked if each.turn == turn]
            assert [each.text for each in questions] == [
                f"Who would tell me more about matter {turn}?", f"What happened on day {turn} of the last case?"
            ]  # fmt: skip
            refused = [each.text for each in one.account.changes if each.refused]
            assert any("confidence" in each for each in refused), "a level that is none"
            assert any(each.startswith("section: ") for each in refused), "one that is not there"
            assert any("did not say that" in each and "Aliens" in each for each in refused)
            assert any("fly_to_the_moon" in each for each in refused)
            assert any("5 questions" in each for each in refused)
            assert any("did not say that of their organisation" in each for each in refused)
            if turn > 1:
                assert any("circle" in each for each in refused)
            if one.account.sources:
                assert any("99 percent" in each for each in refused), "the passage does not say that"
        state = done[-1].state
        assert len(state.assumptions) == 20
        assert state.assumptions[4].depends_on == ("A4",)
        cited = [each for each in state.points if each.cited]
        assert cited and all(each.cited[0].name == "report.md" and "6.8" in each.cited[0].quote for each in cited)
        assert "[1]" in done[0].turn.answer or any(each.turn.citations for each in done)
        assert talk.org_context(project="p").startswith("In week 1"), (
            "the first turn primes it; the model's was refused"
        )

        # what falls marks all that rest on it
        after = talk.revise_assumption("A3", interview.id, project="p", status="refuted", evidence="measured")
        assert [each.status for each in after.assumptions[:3]] == [Standing.OPEN, Standing.OPEN, Standing.REFUTED]
        assert all(each.status is Standing.SHAKEN for each in after.assumptions[3:])
        brief = talk.document(interview.id, project="p")
        impact = next(each for each in brief.sections if "6.8 percent" in each.text)
        assert impact.sources and not impact.open
        record("discovery_by_tools", turns=20, calls=len(server.calls), refused=sum(
            each.refused for one in done for each in one.account.changes
        ))  # fmt: skip
    pairs = pairwise(each.turn.number for each in done)
    assert all(later == earlier + 1 for earlier, later in pairs)
