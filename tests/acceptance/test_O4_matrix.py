"""Who may do what to whom: every route, stream, socket and tool, for every kind of caller, on every kind of thing.

What is expected is computed from `POLICY`, `TOOLS` and `MAY` alone:

no, bad, expired or revoked key -> 401    a role that may not -> 403, whatever it asks for
own -> done    foreign, above the clearance, deleted, missing -> 404, and all of these in the same words
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from ragforge import Ragforge
from ragforge.build import utc_now
from ragforge.domain.access import MAY, Action, Clearance, Role, Scope
from ragforge.domain.evaluation import Question, Run
from ragforge.domain.library import Labels
from ragforge.domain.records import Artifact, ArtifactSection, LogEntry
from ragforge.interfaces.http.app import routes_of
from ragforge.interfaces.http.errors import INTERNAL
from ragforge.interfaces.http.policy import POLICY, WS
from ragforge.interfaces.http.routes import ROUTERS
from ragforge.interfaces.mcp.tools import TOOLS
from tests.forge import SMALL, open_forge
from tests.proof import record
from tests.serving import serving

SSE, MCP = "SSE", "MCP"
"""In place of a method: a route that is asked for events, and a tool."""
STRANGERS = ("no key", "bad key", "expired", "revoked")
WHO = (*STRANGERS, *Role)
"""Nine kinds of callers. Those with a key that works reach the project `p`, up to internal files."""
ASK = "/v1/projects/{project}/ask"
OF_FRAMEWORK = {("GET", "/openapi.json")}
EVENTS = {"Accept": "text/event-stream"}
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
TOOL_CALL = {"Accept": "application/json, text/event-stream"}

Row = tuple[str, str]


@dataclass(frozen=True)
class Example:
    """How a row is called, and what it answers where everything is in order."""

    status: int = 200
    body: Any = None
    query: str = ""
    above: Any = None
    """A body that names something above the clearance, where the path cannot."""
    own: int | None = None
    """For what nobody with a key for some projects, or without clearance for all, may do, though the role may."""
    raw: bool = False
    """The body is bytes."""
    also: tuple[int, ...] = ()


QUESTION = {"question": "Where was the badger seen?"}
APPROVAL = {"entry_type": "gate_approval", "gate_type": "release", "approved_approach": "Ask the badger first."}
WORDS = {"problem": "It digs.", "solution": "Let it.", "when_to_try": "In spring."}
LESSONS = "/v1/projects/{project}/lessons"
DISCOVERY = "/v1/projects/{project}/discovery"
INTERVIEW = f"{DISCOVERY}/{{interview}}"
SAID = {"message": "The badger digs under the fence.", "model": "offline"}
STAGED, PATTERN = f"{LESSONS}/staged/{{lesson}}", f"{LESSONS}/patterns/{{pattern}}"
NAMING = {"files": ["{named}"]}
EXAMPLES: dict[Row, Example] = {
    ("GET", "/"): Example(307),
    ("GET", "/healthz"): Example(),
    ("GET", "/readyz"): Example(also=(503,)),
    ("GET", "/metrics"): Example(own=403),
    ("GET", "/docs"): Example(),
    ("GET", "/openapi.json"): Example(),
    ("GET", "/v1/projects"): Example(),
    ("POST", "/v1/projects"): Example(201, {"name": "another"}, own=403),
    ("GET", "/v1/projects/{project}"): Example(),
    ("PATCH", "/v1/projects/{project}"): Example(200, {"name": "another"}, own=403),
    ("DELETE", "/v1/projects/{project}"): Example(own=403),
    ("GET", "/v1/projects/{project}/texts/{kind}"): Example(),
    ("PUT", "/v1/projects/{project}/texts/{kind}"): Example(200, {"text": "Be brief."}),
    ("GET", "/v1/projects/{project}/texts/{kind}/versions"): Example(),
    ("POST", "/v1/projects/{project}/rebuild"): Example(202, own=403),
    ("POST", "/v1/projects/{project}/reindex"): Example(202, {}, own=403),
    ("GET", "/v1/projects/{project}/files"): Example(),
    ("POST", "/v1/projects/{project}/files"): Example(202, b"# A file\n\nOf words.\n", "name=sent.md", raw=True),
    ("GET", "/v1/projects/{project}/files/{file}"): Example(),
    ("PATCH", "/v1/projects/{project}/files/{file}"): Example(200, {"tags": ["seen"]}),
    ("DELETE", "/v1/projects/{project}/files/{file}"): Example(),
    ("GET", "/v1/projects/{project}/files/{file}/content"): Example(),
    ("GET", "/v1/projects/{project}/files/{file}/chunks"): Example(),
    ("GET", "/v1/projects/{project}/files/{file}/text"): Example(),
    ("POST", "/v1/projects/{project}/search"): Example(200, QUESTION, above=QUESTION | {"filters": NAMING}),
    ("POST", "/v1/projects/{project}/explain"): Example(200, QUESTION, above=QUESTION | {"filters": NAMING}),
    ("POST", "/v1/projects/{project}/prompt"): Example(200, QUESTION, above=QUESTION | {"filters": NAMING}),
    ("POST", ASK): Example(200, QUESTION, above=QUESTION | {"filters": NAMING}),
    (SSE, ASK): Example(200, QUESTION, above=QUESTION | {"filters": NAMING}),
    (WS, "/v1/projects/{project}/chat"): Example(101),
    ("GET", "/v1/streams/{stream}"): Example(also=(204,)),
    ("DELETE", "/v1/streams/{stream}"): Example(204),
    ("GET", "/v1/language-models"): Example(),
    ("GET", "/v1/tuning"): Example(),
    ("GET", "/v1/projects/{project}/conversations"): Example(),
    ("POST", "/v1/projects/{project}/conversations"): Example(201, {"title": "talk"}),
    ("GET", "/v1/projects/{project}/conversations/{conversation}"): Example(),
    ("PATCH", "/v1/projects/{project}/conversations/{conversation}"): Example(200, {"title": "another"}),
    ("DELETE", "/v1/projects/{project}/conversations/{conversation}"): Example(204),
    ("GET", "/v1/projects/{project}/conversations/{conversation}/markdown"): Example(),
    ("GET", "/v1/projects/{project}/conversations/{conversation}/rollups"): Example(),
    ("GET", "/v1/projects/{project}/turns"): Example(query="conversation={conversation}"),
    ("PATCH", "/v1/projects/{project}/turns/{turn}"): Example(204, {"importance": 1}),
    ("DELETE", "/v1/projects/{project}/turns/{turn}"): Example(204),
    ("GET", "/v1/agents"): Example(),
    ("GET", "/v1/agents/{agent}"): Example(),
    ("GET", "/v1/document-kinds"): Example(),
    ("GET", "/v1/projects/{project}/artifacts"): Example(),
    ("POST", "/v1/projects/{project}/artifacts"): Example(202, {"kind": "blueprint"}),
    ("GET", "/v1/projects/{project}/artifacts/{artifact}"): Example(),
    ("PATCH", "/v1/projects/{project}/artifacts/{artifact}"): Example(200, {"title": "Plan"}),
    ("DELETE", "/v1/projects/{project}/artifacts/{artifact}"): Example(),
    ("GET", "/v1/projects/{project}/log"): Example(),
    ("DELETE", "/v1/projects/{project}/log"): Example(query="before=1990-01-01T00:00:00Z"),
    ("GET", "/v1/projects/{project}/log/{entry}"): Example(),
    ("POST", "/v1/projects/{project}/log/{entry}/feedback"): Example(200, {"good": True}),
    ("GET", "/v1/projects/{project}/spent"): Example(),
    ("GET", "/v1/projects/{project}/questions"): Example(),
    ("POST", "/v1/projects/{project}/questions"): Example(200, {"name": "sent", "questions": [QUESTION]}),
    ("GET", "/v1/projects/{project}/questions/{name}"): Example(),
    ("GET", "/v1/projects/{project}/evaluations"): Example(),
    ("POST", "/v1/projects/{project}/evaluations"): Example(202, {"questions": "{name}"}),
    ("GET", "/v1/projects/{project}/evaluations/{run}"): Example(),
    ("GET", "/v1/projects/{project}/evaluations/{before}/compare/{after}"): Example(),
    ("GET", "/v1/discovery/modes"): Example(),
    ("GET", "/v1/projects/{project}/org-context"): Example(),
    ("PUT", "/v1/projects/{project}/org-context"): Example(200, {"text": "We keep badgers."}),
    ("GET", DISCOVERY): Example(),
    ("POST", DISCOVERY): Example(201, {"title": "badgers"}),
    ("GET", INTERVIEW): Example(),
    ("PATCH", INTERVIEW): Example(200, {"title": "another"}),
    ("DELETE", INTERVIEW): Example(),
    ("GET", f"{INTERVIEW}/turns"): Example(),
    ("POST", f"{INTERVIEW}/turns"): Example(200, SAID),
    (SSE, f"{INTERVIEW}/turns"): Example(200, SAID),
    ("POST", f"{INTERVIEW}/undo"): Example(),
    ("GET", f"{INTERVIEW}/versions"): Example(),
    ("POST", f"{INTERVIEW}/assumptions"): Example(201, {"statement": "Nobody feeds them at night."}),
    ("PATCH", f"{INTERVIEW}/assumptions/{{assumption}}"): Example(200, {"status": "confirmed"}),
    ("DELETE", f"{INTERVIEW}/assumptions/{{assumption}}"): Example(),
    ("POST", f"{INTERVIEW}/points"): Example(201, {"section": "impact", "text": "Four fences a year."}),
    ("PATCH", f"{INTERVIEW}/points/{{point}}"): Example(200, {"text": "Fences fall.", "section": "causes"}),
    ("DELETE", f"{INTERVIEW}/points/{{point}}"): Example(),
    ("PUT", f"{INTERVIEW}/mode"): Example(200, {"mode": "solution"}),
    ("GET", f"{INTERVIEW}/document"): Example(),
    ("POST", f"{INTERVIEW}/document"): Example(201, {"title": "Badgers"}),
    ("POST", LESSONS): Example(201, APPROVAL),
    ("GET", f"{LESSONS}/staged"): Example(),
    ("GET", STAGED): Example(),
    ("PATCH", STAGED): Example(200, {"evidence": "It was seen."}),
    ("DELETE", STAGED): Example(),
    ("POST", f"{STAGED}/approve"): Example(),
    ("POST", f"{LESSONS}/checkpoints"): Example(202, {"kind": "phase"}),
    ("POST", f"{LESSONS}/query"): Example(200, {"task": "Ask the badger."}),
    ("POST", f"{LESSONS}/context"): Example(200, {"task": "Ask the badger."}),
    ("GET", f"{LESSONS}/patterns"): Example(),
    ("GET", PATTERN): Example(),
    ("PATCH", PATTERN): Example(200, WORDS | {"version": 1}),
    ("DELETE", PATTERN): Example(),
    ("POST", f"{PATTERN}/outcomes"): Example(201, {"success": True}),
    ("POST", f"{PATTERN}/approve"): Example(),
    ("POST", f"{PATTERN}/reject"): Example(),
    ("POST", f"{PATTERN}/merge"): Example(200, {"others": ["{pattern}"]}),
    ("POST", f"{PATTERN}/split"): Example(201, {"lessons": ["{captured}"]}),
    ("GET", f"{LESSONS}/calibration"): Example(),
    ("GET", f"{LESSONS}/export"): Example(),
    ("POST", f"{LESSONS}/import"): Example(200, {"records": [APPROVAL]}),
    ("GET", "/v1/nodes"): Example(own=403),
    ("GET", "/v1/jobs"): Example(),
    ("GET", "/v1/jobs/{job}"): Example(),
    ("DELETE", "/v1/jobs/{job}"): Example(),
    ("GET", "/v1/jobs/{job}/events"): Example(),
    ("GET", "/v1/models"): Example(),
    ("GET", "/v1/models/{model:path}"): Example(),
    ("POST", "/v1/chat/completions"): Example(
        200, {"model": "{model}", "messages": [{"role": "user", "content": QUESTION["question"]}]}
    ),
    ("POST", "/v1/embeddings"): Example(200, {"model": "{model}", "input": "some words"}),
    ("POST", "/mcp"): Example(200, {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}),
    (MCP, "search"): Example(body={"query": "badger"}),
    (MCP, "fetch"): Example(body={"id": "{fetched}"}),
    (MCP, "ask"): Example(body=QUESTION | {"project": "{project}"}),
    (MCP, "explain"): Example(body=QUESTION | {"project": "{project}"}),
    (MCP, "list_projects"): Example(body={}),
    (MCP, "list_files"): Example(body={"project": "{project}"}),
    (MCP, "lessons_capture"): Example(body=APPROVAL | {"project": "{project}"}),
    (MCP, "lessons_query"): Example(body={"task": "Ask the badger.", "project": "{project}"}),
    (MCP, "record_outcome"): Example(body={"pattern": "{pattern}", "success": False, "project": "{project}"}),
}
STREAMED: tuple[Row, ...] = ((SSE, ASK), (SSE, f"{INTERVIEW}/turns"))
ROWS: tuple[Row, ...] = (*POLICY, *STREAMED, *((MCP, tool) for tool in TOOLS))
THINGS = (
    "file", "conversation", "interview", "turn", "artifact", "entry", "name", "run", "lesson", "pattern", "job",
    "stream",
)  # fmt: skip
"""What belongs to somebody or somewhere; beside projects and the models that stand for them."""
SHARED = ("file", "artifact", "name", "run", "lesson", "pattern")
"""Everybody's who reaches the project."""
NEVER_ABOVE = ("name", "run", "lesson", "pattern")
"""A set of questions and its runs are shown to all who reach the project; what they tell is cut for each. Lessons come
from no file."""


def action_of(row: Row) -> Action | None:
    method, path = row
    return TOOLS[path] if method == MCP else POLICY["POST" if method == SSE else method, path]


def asks_for(row: Row) -> str:
    """All that a row's path, query and body name."""
    example = EXAMPLES[row]
    return f"{row[1].replace(':path', '')} {example.query} {example.body if not example.raw else ''}"


def things_of(row: Row) -> list[str]:
    wanted = asks_for(row)
    kinds = {"{before}": "run", "{fetched}": "file"}
    named = [thing for thing in THINGS if f"{{{thing}}}" in wanted]
    return named or [thing for name, thing in kinds.items() if name in wanted]


def cases_of(row: Row) -> tuple[str, ...]:
    """What there can be: things of one's own, and those that must look as if they were not there."""
    wanted, things = asks_for(row), things_of(row)
    above = ("above",) if not set(things) & set(NEVER_ABOVE) else ()
    if things and ("{project}" in wanted or "{fetched}" in wanted):
        return ("own", "foreign", "nowhere", "smuggled", *above, "deleted", "missing")
    if things:
        return ("own", "foreign", *above, "deleted", "missing")
    if "{project}" in wanted or "{model}" in wanted:
        return ("own", "foreign", "deleted", "missing", *(("above", "unknown") if EXAMPLES[row].above else ()))
    return ("own",)


def alike(cases: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Cases that are told in the same words: what is wrong with the project, and with what is in it."""
    if "nowhere" in cases:
        return ("foreign", "nowhere"), ("smuggled", "above", "deleted", "missing")
    return ("foreign", "deleted", "missing", *(("above",) if "unknown" not in cases else ())), ("above", "unknown")


def expected(row: Row, who: str, case: str) -> tuple[int, ...]:
    """From the tables alone."""
    action, example = action_of(row), EXAMPLES[row]
    if action is None:
        return (example.status, *example.also)
    if who in STRANGERS:
        return (401,)
    if action not in MAY[Role(who)]:
        return (403,)
    if case == "own":
        return (example.own or example.status, *example.also)
    return (404,)


CELLS = [(row, who, case) for row in ROWS if row in EXAMPLES for who in WHO for case in cases_of(row)]


# -- the yard


@dataclass
class Yard:
    """A workspace that is served, its callers, and things of every kind."""

    forge: Ragforge
    url: str
    folder: Path
    client: httpx.Client
    keys: dict[str, str] = field(default_factory=dict)
    scopes: dict[str, Scope] = field(default_factory=dict)
    made: dict[tuple[str, str], str] = field(default_factory=dict)
    """By thing and case (or caller)."""

    def fill(self) -> None:
        forge, access = self.forge, self.forge.access()
        for name in ("q", "gone"):
            forge.create_project(name, strategy=SMALL, embedder="hashing")
        self.put("badger", "p")
        self.put("lynx", "p", Clearance.RESTRICTED)
        self.put("marmot", "q")
        own = frozenset({forge.project("p").id})
        for who in (*WHO[2:], "above"):
            role = Role(who) if who in list(Role) else Role.ADMIN
            clearance = Clearance.RESTRICTED if who == "above" else Clearance.INTERNAL
            soon = utc_now() + timedelta(milliseconds=300) if who == "expired" else None
            key, secret = access.create(who, role, projects=own, clearance=clearance, expires_at=soon)
            self.keys[who], self.scopes[who] = secret, access.resolve(secret).scope
            if who == "revoked":
                access.revoke(key.id)
        self.scopes["owner"] = forge._scope
        self.keys["bad key"] = f"rf_{'0' * 12}_{'A' * 43}"
        self.made["file", "above"] = self._file("above")
        self.put("wren", "gone")
        for thing in ("name", "run", "job", "stream"):
            self.made[thing, "gone"] = getattr(self, f"_{thing}")("gone")
        forge.remove_project("gone")
        time.sleep(0.7)  # the expired key has, and there being keys is known

    def put(self, word: str, project: str, level: Clearance = Clearance.INTERNAL) -> str:
        path = self.folder / project / f"{word}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# About the {word}\n\nThe {word} was seen at the river on Monday.\n")
        (added,) = self.forge.add(path, project=project, labels=Labels(confidentiality=level)).files
        assert added.document
        return added.document

    # -- one of each kind: of a caller, of the project, or a foreign one, or one above

    def where(self, whose: str) -> tuple[Ragforge, Scope, str]:
        """Whose it is, and in which project."""
        if whose in ("foreign", "gone"):
            return self.forge, self.scopes["owner"], "q" if whose == "foreign" else "gone"
        return self.forge.acting(self.scopes[whose]), self.scopes[whose], "p"

    def _file(self, whose: str) -> str:
        if whose == "above":
            return self.forge.document("lynx.md", project="p").id
        return self.put(f"bird{uuid4().hex[:8]}", self.where(whose)[2])

    def _conversation(self, whose: str) -> str:
        forge, _, project = self.where(whose)
        return forge.begin_conversation("a talk", project=project).id

    def _interview(self, whose: str) -> str:
        """One with a turn, an assumption and a point."""
        forge, _, project = self.where(whose)
        talk = forge.discovery.begin("a talk", project=project).id
        forge.discovery.say("The fence is broken by noon.", talk, project=project, describe=False)
        forge.discovery.add_assumption("Badgers come back to a place.", talk, project=project)
        forge.discovery.add_point("impact", "The neighbours complain daily.", talk, project=project)
        return talk

    def _turn(self, whose: str) -> str:
        forge, _, project = self.where(whose)
        talk = forge.begin_conversation("a talk", project=project)
        forge.ask("Where was it seen?", project=project, conversation=talk.id)
        return forge.turns(talk.id, project=project)[0].id

    def _artifact(self, whose: str) -> str:
        forge, scope, project = self.where(whose)
        read = (self.made["file", "above"],) if whose == "above" else ()
        section = ArtifactSection("Overview", 1, "Words.", read=read)
        made = Artifact(uuid4().hex[:16], "blueprint", "Blueprint", utc_now(), (section,), ())
        with self.forge._parts.catalog.write() as c:
            return c.artifacts.put(scope, forge.project(project).id, made).id

    def _entry(self, whose: str, asked_at: datetime | None = None) -> str:
        forge, scope, project = self.where(whose)
        entry = LogEntry(uuid4().hex, asked_at or utc_now(), "answer", "Where was it seen?")
        with self.forge._parts.catalog.write() as c:
            c.log.add(scope, forge.project(project).id, entry)
        return entry.id

    def _name(self, whose: str) -> str:
        forge, scope, project = self.where(whose)
        name = f"set-{uuid4().hex[:8]}"
        wanted = forge.documents(project=project)[0].id
        with self.forge._parts.catalog.write() as c:
            questions = [Question("1", "Where was the badger seen?", {wanted: 1.0})]
            c.evaluations.put_questions(scope, forge.project(project).id, name, "", questions)
        return name

    def _run(self, whose: str) -> str:
        forge, _, project = self.where(whose)
        *_, run = forge.evaluating(self._name(whose), project=project)
        assert isinstance(run, Run)
        return run.id

    def _lesson(self, whose: str, technology: str = "") -> str:
        """One that no checkpoint takes up."""
        forge, _, project = self.where(whose)
        names = {"agent_type": "backend", "technology": technology or uuid4().hex}
        told = {"failure_description": "The badger digs.", "solution_steps": "Let it."}
        return forge.lessons.capture("failure_solution", project=project, verified=False, **names, **told).id

    def _pattern(self, whose: str) -> str:
        """One of two captures."""
        forge, _, project = self.where(whose)
        technology = uuid4().hex
        lessons = [self._lesson(whose, technology) for _ in range(2)]
        for lesson in lessons:
            forge.lessons.approve(lesson, project=project)
        forge.lessons.checkpoint(project=project)
        (pattern,) = {forge.lessons.lesson(each, project=project).pattern for each in lessons}
        return pattern

    def _job(self, whose: str) -> str:
        """One that ended, of a kind that no worker takes."""
        forge, scope, project = self.where(whose)
        with self.forge._parts.catalog.write() as c:
            (job,) = c.jobs.enqueue(scope, forge.project(project).id, "nobodys", [{}])
            c.jobs.cancel(scope, job.id)
        return job.id

    def _stream(self, whose: str) -> str:
        if whose not in self.keys:
            return uuid4().hex
        headers = EVENTS | {"Authorization": f"Bearer {self.keys[whose]}"}
        answer = self.client.post("/v1/projects/p/ask", json=QUESTION, headers=headers)
        return answer.headers["Content-Location"].rpartition("/")[2]

    def _gone(self, thing: str, who: str) -> str:
        """One that was there. What nobody can remove went with its project."""
        forge = self.forge.acting(self.scopes[who])
        removing: dict[str, Callable[[str], object]] = {
            "file": lambda id: list(forge.removing([id], project="p")),
            "conversation": lambda id: forge.remove_conversation(id, project="p"),
            "interview": lambda id: forge.discovery.remove(id, project="p"),
            "turn": lambda id: forge.remove_turn(id, project="p"),
            "artifact": lambda id: forge.remove_artifacts([id], project="p"),
            "lesson": lambda id: forge.lessons.remove([id], project="p"),
            "pattern": lambda id: forge.lessons.remove([id], project="p"),
            "entry": lambda id: forge.prune_log(LONG_AGO + timedelta(days=1), project="p"),
        }
        if thing not in removing:
            return self.made[thing, "gone"]
        id = self._entry(who, LONG_AGO) if thing == "entry" else str(getattr(self, f"_{thing}")(who))
        removing[thing](id)
        return id

    def of(self, thing: str, case: str, who: str, *, fresh: bool = False) -> str:
        """The id of a thing; made when it is first needed."""
        if case in ("missing", "nowhere"):
            return "0" * 16
        who = "owner" if thing in SHARED else "reader" if who in STRANGERS else who
        whose = {"own": who, "smuggled": "foreign", "deleted": f"deleted by {who}"}.get(case, case)
        if fresh:
            return str(getattr(self, f"_{thing}")(who))
        if (thing, whose) not in self.made:
            make = (
                (lambda: self._gone(thing, who)) if case == "deleted" else (lambda: getattr(self, f"_{thing}")(whose))
            )
            self.made[thing, whose] = make()
        return self.made[thing, whose]

    # -- a cell

    def names(self, row: Row, who: str, case: str) -> dict[str, str]:
        """What the row names in this case."""
        wanted = asks_for(row)
        things = things_of(row)
        project = {"foreign": "q", "nowhere": "nowhere"}.get(case, "p")
        if not things:
            project = {"deleted": "gone", "missing": "nowhere"}.get(case, project)
        named = {"project": project, "model": f"ragforge/{project}", "kind": "hard-rules", "agent": "architect"}
        for thing in things:
            changes = row[0] == "DELETE" or row[1].endswith(("/approve", "/split", "/undo"))
            fresh = changes and case == "own" and who not in STRANGERS
            named[thing] = self.of(thing, case, who, fresh=fresh)
        if "interview" in things:
            named |= {"assumption": "A1", "point": "P1"}
        if "{before}" in wanted:
            named["before"] = named["after"] = self.of("run", case, who)
        if "{captured}" in wanted:
            found = self.forge.lessons.pattern(named["pattern"], project="p") if case == "own" else None
            named["captured"] = found.lessons[0].id if found else "0" * 16
        if "{fetched}" in wanted:
            named["fetched"] = f"{project}/{self.of('file', case, who)}"
        return named | {"named": "0" * 16 if case == "unknown" else self.made["file", "above"]}

    def called(self, row: Row, who: str, case: str) -> tuple[int, str]:
        """The status, and the body with `…` for what the caller said itself."""
        (method, path), example, names = row, EXAMPLES[row], self.names(row, who, case)
        headers = {"X-Request-ID": "the-same-request"}
        if who in self.keys:
            headers["Authorization"] = f"Bearer {self.keys[who]}"
        body = example.above if case in ("above", "unknown") and example.above else example.body
        if method == MCP:
            call = {"name": path, "arguments": _filled(body, names)}
            status, text = self._sent("POST", "/mcp", headers | TOOL_CALL, _tool(call))
            if status == 200:
                result = json.loads(text[text.index("{") : text.rindex("}") + 1])["result"]
                text = result["content"][0]["text"]
                status = _status_of(text) if result.get("isError") else 200
        else:
            address = _filled(path.replace(":path", ""), names)
            address += f"?{_filled(example.query, names)}" if example.query else ""
            if method == WS:
                status, text = self._connected(address, headers)
            else:
                headers |= EVENTS if method == SSE else TOOL_CALL if path == "/mcp" else {}
                content = (
                    {"content": body} if example.raw else {"json": _filled(body, names)} if body is not None else {}
                )
                status, text = self._sent("POST" if method == SSE else method, address, headers, content)
        for name in sorted(set(names.values()), key=len, reverse=True):
            text = text.replace(name, "…") if len(name) > 1 else text.replace(f"'{name}'", "'…'")
        return status, text

    def _sent(self, method: str, address: str, headers: dict[str, str], content: dict[str, Any]) -> tuple[int, str]:
        response = self.client.request(method, address, headers=headers, **content)
        return response.status_code, response.text

    def _connected(self, address: str, headers: dict[str, str]) -> tuple[int, str]:
        try:
            with connect(self.url.replace("http", "ws", 1) + address, additional_headers=headers):
                return 101, ""
        except InvalidStatus as refused:
            return refused.response.status_code, (refused.response.body or b"").decode()


def _tool(call: dict[str, Any]) -> dict[str, Any]:
    return {"json": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}}


def _status_of(told: str) -> int:
    """The status of a route that would say what a tool says instead of its result."""
    if INTERNAL[1] in told:
        return 500
    if " may not " in told:
        return 403
    return 404 if re.match(r"no (project|file|pattern) '", told) else 422


def _filled(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(f"{{{name}}}", text)
        return value
    if isinstance(value, dict):
        return {key: _filled(item, names) for key, item in value.items()}
    return [_filled(item, names) for item in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def yard(memory_folder: Path | None) -> Iterator[Yard]:
    with (
        tempfile.TemporaryDirectory(dir=memory_folder) as folder,
        open_forge(Path(folder) / "workspace", learn__embedder="wordllama") as forge,
        serving(forge) as url,
        httpx.Client(base_url=url, timeout=30) as client,
    ):
        made = Yard(forge, url, Path(folder) / "files", client)
        made.fill()
        yield made


# -- the matrix


def test_O4_every_row_has_an_example() -> None:
    assert set(ROWS) == set(EXAMPLES)
    there = {*routes_of(ROUTERS), *OF_FRAMEWORK, *STREAMED, *((MCP, tool) for tool in TOOLS)}
    assert set(ROWS) == there, "every row has a route, and every route a row"
    assert len(CELLS) >= 1_000
    record("matrix", rows=len(ROWS), callers=len(WHO), cells=len(CELLS))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row))
def test_O4_every_cell_is_as_the_tables_say(yard: Yard, row: Row) -> None:
    wrong: list[str] = []
    refusals: dict[tuple[tuple[int, ...], str], set[str]] = {}
    for who in WHO:
        hidden: dict[str, str] = {}
        for case in cases_of(row):
            status, text = yard.called(row, who, case)
            right = expected(row, who, case)
            if status not in right:
                wrong.append(f"{who}, {case}: {status}, not {right}: {text[:200]}")
            if right == (404,):
                hidden[case] = text
            elif right in ((401,), (403,)):
                group = "bad keys" if who in STRANGERS[1:] else who
                refusals.setdefault((right, group), set()).add(text)
        for same in alike(cases_of(row)):
            told = {hidden[case] for case in same if case in hidden}
            wrong += [f"{who}: {', '.join(same)} are told in different words: {told}"] if len(told) > 1 else []
    wrong += [
        f"{right} {who}: not one answer but {texts}" for (right, who), texts in refusals.items() if len(texts) > 1
    ]
    assert not wrong, "\n".join(wrong)


def test_O4_an_admin_of_everything_may_do_what_one_of_a_project_may_not(yard: Yard) -> None:
    _, secret = yard.forge.access().create("all", Role.ADMIN, clearance=Clearance.RESTRICTED)
    headers = {"Authorization": f"Bearer {secret}"}

    def call(method: str, path: str, status: int, **more: Any) -> None:
        response = yard.client.request(method, path, headers=headers, **more)
        assert response.status_code == status, response.text

    call("POST", "/v1/projects", 201, json={"name": "made", "embedder": "hashing"})
    call("POST", "/v1/projects/made/rebuild", 202)
    call("POST", "/v1/projects/made/reindex", 202, json={})
    call("PATCH", "/v1/projects/made", 200, json={"name": "renamed"})
    call("GET", "/v1/projects/made", 404)
    call("DELETE", "/v1/projects/renamed", 200)
    call("GET", f"/v1/projects/q/files/{yard.of('file', 'foreign', '')}", 200)
    call("GET", f"/v1/projects/p/files/{yard.of('file', 'above', '')}", 200)
    call("GET", f"/v1/jobs/{yard.of('job', 'foreign', 'admin')}", 200)


def test_O4_labels_above_ones_clearance_are_refused(yard: Yard) -> None:
    headers = {"Authorization": f"Bearer {yard.keys['editor']}"}
    file = yard.of("file", "own", "editor")
    for level, allowed in (("internal", True), ("confidential", False), ("restricted", False)):
        form = {"file": ("new.md", f"# {level}\n\nWords.\n".encode())}
        sent = yard.client.post("/v1/projects/p/files", files=form, data={"confidentiality": level}, headers=headers)
        changed = yard.client.patch(f"/v1/projects/p/files/{file}", json={"confidentiality": level}, headers=headers)
        assert (sent.status_code, changed.status_code) == ((202, 200) if allowed else (403, 403)), (
            sent.text + changed.text
        )
