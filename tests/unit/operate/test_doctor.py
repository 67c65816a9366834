"""What doctor says of the machine, and who the owner of a local workspace is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ragforge.domain.access import Clearance
from ragforge.domain.generation import ModelCard
from ragforge.domain.models import LanguageModels, LanguageModelState
from ragforge.operate import access
from ragforge.operate.doctor import answering, examine
from tests.forge import open_forge


def test_a_wanted_model_that_is_missing_is_a_fault_and_another_is_not(tmp_path: Path) -> None:
    with open_forge(tmp_path / "workspace") as forge:
        states = forge.models()
    missing = [replace(state, verified=False) for state in states]
    findings = {finding.subject: finding for finding in examine(tmp_path, missing, states[0].name)}
    assert not findings[f"model {states[0].name}"].ok
    assert states[0].name in findings[f"model {states[0].name}"].hint
    assert all(findings[f"model {state.name}"].ok for state in states[1:])
    assert findings["Python"].ok and findings["workspace"].ok


def test_a_wanted_model_that_is_missing_is_a_warning_while_the_fallback_works(tmp_path: Path) -> None:
    with open_forge(tmp_path / "workspace") as forge:
        states = {state.name: replace(state, verified=state.name == "wordllama") for state in forge.models()}
    findings = {finding.subject: finding for finding in examine(tmp_path, list(states.values()), "minilm", "wordllama")}
    missing = findings["model minilm"]
    assert missing.ok and missing.warning and "wordllama" in missing.detail and missing.hint
    assert not findings["model wordllama"].warning
    without = {finding.subject: finding for finding in examine(tmp_path, list(states.values()), "minilm", "")}
    assert not without["model minilm"].ok


def test_doctor_looks_at_the_whole_installation(tmp_path: Path) -> None:
    with open_forge(tmp_path / "workspace") as forge:
        findings = forge.doctor()
    assert len({finding.subject for finding in findings}) == len(findings) > 8
    assert all(finding.ok or finding.hint for finding in findings)


def test_the_owner_reaches_everything() -> None:
    scope = access.owner()
    assert scope.reaches("any project") and scope.clearance is Clearance.RESTRICTED


def test_doctor_tells_who_writes_answers_and_what_is_missing() -> None:
    ready = LanguageModelState(ModelCard("openai:a", 1000), ("answers", "cheap"), "OPENAI_API_KEY", True)
    broken = LanguageModelState(ModelCard("ollama:b", None), ("premium",), "", False, "it is away", "ollama serve")
    spare = LanguageModelState(ModelCard("ollama:c", None), (), "", False, "nobody cares")
    findings = {each.subject: each for each in answering(LanguageModels((ready, broken, spare), "http://here", 1))}
    assert set(findings) == {"language model openai:a", "language model ollama:b", "Ollama"}
    assert findings["language model openai:a"].detail == "for answers, cheap; OPENAI_API_KEY is set"
    assert not findings["language model ollama:b"].ok and findings["language model ollama:b"].hint == "ollama serve"
    assert findings["Ollama"].detail == "answers with 1 model at http://here"
    alone = list(answering(LanguageModels((spare,), "http://here", None)))
    assert [each.subject for each in alone] == ["language model", "Ollama"] and all(each.ok for each in alone)
    assert alone[1].detail == "does not answer at http://here, and is not needed"
    [*_, missed] = answering(LanguageModels((broken,), "http://here", None))
    assert missed.detail == "does not answer at http://here"
