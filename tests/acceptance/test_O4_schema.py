"""Whatever is sent that the schema allows, or does not, the server answers as the schema says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ragforge import Ragforge
from tests.forge import open_forge
from tests.proof import PROVING, count, record
from tests.serving import serving

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Ragforge]:
    (tmp_path / "chairs.md").write_text("# Chairs\n\nA chair can be returned within thirty days.\n")
    with open_forge(tmp_path / "workspace", learn__embedder="wordllama") as forge:
        forge.add(tmp_path / "chairs.md", project="demo")
        yield forge


def there(forge: Ragforge) -> Mapping[str, str]:
    """What can be named in a path and is there: random names alone would meet only what is missing."""
    conversation = forge.begin_conversation("about chairs", project="demo").id
    result = forge.ask("How long can a chair be returned?", project="demo", conversation=conversation)
    told: Any = {"failure_description": "The chair breaks.", "solution_steps": "Glue it.", "agent_type": "joiner"}
    lesson = forge.lessons.capture("failure_solution", project="demo", **told)
    forge.lessons.checkpoint(project="demo")
    interview = forge.discovery.begin("returns", project="demo").id
    forge.discovery.say("Chairs come back broken.", interview, project="demo")
    return {
        "project": "demo",
        "file": forge.documents(project="demo")[0].id,
        "conversation": conversation,
        "interview": interview,
        "assumption": forge.discovery.add_assumption("Most are repaired.", interview, project="demo").id,
        "point": forge.discovery.add_point("impact", "Forty a week.", interview, project="demo").id,
        "turn": forge.turns(conversation, project="demo")[0].id,
        "entry": result.account.trace_id,
        "job": forge.jobs()[0].id,
        "kind": "rules",
        "lesson": forge.lessons.capture("failure_solution", project="demo", verified=False, **told).id,
        "pattern": forge.lessons.lesson(lesson.id, project="demo").pattern,
    }


def modes_of(operation: Any) -> list[GenerationMode]:
    """Where any text is right, wrong ones are looked for long and in vain: usually only bodies are tried so."""
    return [mode for mode in GenerationMode if PROVING or mode.is_positive or operation.body]


@pytest.mark.timeout(1800)
def test_every_call_is_answered_as_documented(forge: Ragforge) -> None:
    known, each, calls = there(forge), count(3, 40), 0
    with serving(forge) as address:
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
        operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
        for operation in sorted(operations, key=lambda each: each.method == "delete"):  # else the rest meets nothing
            for mode in modes_of(operation):

                @given(case=operation.as_strategy(generation_mode=mode))
                @settings(max_examples=each, deadline=None, database=None, suppress_health_check=list(HealthCheck))
                def call(case: schemathesis.Case[Any]) -> None:
                    nonlocal calls
                    calls += 1
                    for name in (case.path_parameters or {}).keys() & known.keys():
                        if calls % 3:
                            case.path_parameters[name] = known[name]
                    case.call_and_validate(base_url=address, checks=CHECKS, timeout=20)

                with suppress(Unsatisfiable):  # nothing can be wrong with a call that takes nothing
                    call()
    record("schema", operations=len(operations), calls=calls)
    assert calls >= count(150, 3000)
