"""Guided interviews, each caller's own: begin them, talk, correct what they know, have them written up.

Who may not write in a project may be interviewed about it all the same; what is known of the organisation, on which all
others build, stays as it is then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

import anyio.to_thread
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from ragforge.domain.access import Action
from ragforge.domain.cancel import Cancel
from ragforge.domain.conversation import LONGEST_TITLE
from ragforge.domain.discovery import Interview, InterviewEvent
from ragforge.domain.records import Artifact
from ragforge.errors import Conflict, TooLarge, UserError
from ragforge.interfaces.fields.discovery import (
    AssumptionFields,
    InterviewFields,
    InterviewTurnFields,
    InterviewTurnLine,
    ModeFields,
    PointFields,
    StateFields,
    TalkFields,
    VersionFields,
    assumption_fields,
    event_fields,
    interview_fields,
    interview_turn_fields,
    mode_fields,
    point_fields,
    state_fields,
    talk_fields,
    turn_fields,
    version_fields,
)
from ragforge.interfaces.http.asking import check_model, telling
from ragforge.interfaces.http.attached import MEDIA, attached
from ragforge.interfaces.http.caller import Called, Caller
from ragforge.interfaces.http.errors import ERRORS
from ragforge.interfaces.http.pages import Paged, Paging
from ragforge.interfaces.http.presence import worked
from ragforge.interfaces.http.requests import (
    AssumptionChange,
    AssumptionRequest,
    ConversationChange,
    InterviewDocument,
    InterviewMode,
    InterviewRequest,
    OrgContext,
    PointChange,
    PointRequest,
    SayRequest,
)
from ragforge.interfaces.http.routes.questions import EVENTS
from ragforge.interfaces.http.routing import Route
from ragforge.interfaces.http.shapes import page_of, shape
from ragforge.interfaces.http.streams import ServerSentEvents, Told, streams_of
from ragforge.interfaces.records import json_text

T = TypeVar("T")

_AT = "/projects/{project}/discovery"
_ONE = f"{_AT}/{{interview}}"
_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {EVENTS: {"schema": {}}},
        "description": "The turn with the state after it; as events, if those are asked",
    }
}

router = APIRouter(prefix="/v1", tags=["discovery"], responses=ERRORS, route_class=Route)


class InterviewDetails(InterviewFields):
    """An interview as it stands, with all that it knows."""

    state: StateFields
    opening: str
    """What the interviewer says before the first turn."""
    open_questions: list[str]
    """What nobody could tell, and what was not talked about."""


class OrgContextFields(TypedDict):
    """What is known of the organisation; empty: nothing yet."""

    text: str


# -- interviews


@router.get(_AT, response_model=page_of(TalkFields))
def interviews(project: str, caller: Called, paging: Paged) -> Response:
    """Your interviews, the one that was spoken in last first."""
    return _page(caller, paging, caller.forge.discovery.all(project=project), talk_fields)


@router.post(_AT, status_code=201, response_model=InterviewDetails)
def begin(project: str, wanted: InterviewRequest, caller: Called) -> Response:
    """Begin an interview: `opening` is what to ask first, and `turns` takes what the person says."""
    begun = caller.forge.discovery.begin(
        wanted.title, project=project, mode=wanted.mode, describe=_describes(caller, wanted.describe)
    )
    return _details(caller, project, begun, 201)


@router.get(_ONE, response_model=InterviewDetails)
def interview(project: str, interview: str, caller: Called) -> Response:
    """One interview by its id, the beginning of it, or `last`: what it knows, and how far each probe has come."""
    return _details(caller, project, caller.forge.discovery.get(interview, project=project))


@router.patch(_ONE, response_model=TalkFields)
def rename(project: str, interview: str, change: ConversationChange, caller: Called) -> Response:
    """Give an interview another title."""
    return caller.shown(caller.forge.discovery.rename(interview, change.title, project=project), talk_fields)


@router.delete(_ONE, response_model=TalkFields)
def remove(project: str, interview: str, caller: Called) -> Response:
    """Delete an interview for good, by its whole id: its turns, and all that it knows."""
    known = caller.forge.discovery.get(interview, project=project)
    if known.id != interview:  # the beginning of an id, or `last`, may be meant for another
        raise UserError("an interview is removed by its whole id", hint=f"{interview!r} is {known.id}")
    return caller.shown(caller.forge.discovery.remove(known.id, project=project), talk_fields)


def _details(caller: Caller, project: str, found: Interview, status: int = 200) -> Response:
    desk = caller.forge.discovery
    progress = desk.progress(found.id, project=project)
    more = {
        "opening": desk.opening(found.id, project=project),
        "open_questions": desk.open_questions(found.id, project=project),
    }
    if caller.records:
        return caller.shown({"talk": found.talk, "state": found.state, "progress": progress, **more}, status=status)
    told = interview_fields(found, progress)
    return caller.shown({**told, "state": state_fields(found.state), **more}, status=status)


# -- a turn


@router.get(f"{_ONE}/turns", response_model=page_of(InterviewTurnLine))
def turns(project: str, interview: str, caller: Called, paging: Paged) -> Response:
    """What was said in an interview, in its order."""
    return _page(caller, paging, caller.forge.discovery.turns(interview, project=project), turn_fields)


@router.post(f"{_ONE}/turns", response_model=InterviewTurnFields, responses=_STREAMED)
async def say(project: str, interview: str, said: SayRequest, request: Request, caller: Called) -> Response:
    """What the interviewer answers, with the state after it.

    With `Accept: text/event-stream` it comes step by step: the events decided, gathered, changed, and done or error.
    They are read again and stopped as those of `ask` are. A turn is kept whole or not at all; where it is not known
    which, the same again with the same `turn` is a conflict if it was kept.
    """
    streams = streams_of(request)
    if EVENTS not in request.headers.get("accept", ""):
        return await worked(request, streams.threads, partial(_said, caller, project, interview, said))
    cancel = Cancel()
    begun = partial(_begun, caller, project, interview, said, cancel)
    events = await anyio.to_thread.run_sync(begun, limiter=streams.threads)
    told = telling(events, partial(_told, caller), caller.request)
    return ServerSentEvents(streams.start(caller.principal, told, caller.request, cancel), 0, streams.idle_seconds)


def _said(caller: Caller, project: str, interview: str, said: SayRequest, cancel: Cancel) -> Response:
    check_model(caller, said.model)
    done = caller.forge.discovery.say(said.message, interview, project=project, **_how(caller, said, cancel))
    return caller.shown(done, interview_turn_fields)


def _begun(caller: Caller, project: str, interview: str, said: SayRequest, cancel: Cancel) -> Iterator[InterviewEvent]:
    """The steps as they come. What can be known to be wrong is told before anything is streamed."""
    desk = caller.forge.discovery
    check_model(caller, said.model)
    known = desk.get(interview, project=project)
    _require_said(said.message)
    if said.turn not in (0, known.state.turn + 1):
        raise Conflict(
            f"the interview is at turn {known.state.turn}: this cannot be turn {said.turn}",
            hint="read it again; what you said may have arrived before",
        )
    return desk.saying(said.message, known.id, project=project, **_how(caller, said, cancel))


def _require_said(message: str) -> None:
    from ragforge.flows.interview import LONGEST_MESSAGE

    if not message.strip():
        raise UserError("the message is empty", hint="say something, or “continue” to hear the next questions")
    if len(message) > LONGEST_MESSAGE:
        raise TooLarge(
            f"the message has {len(message):,} characters",
            hint=f"say it in {LONGEST_MESSAGE:,}, and add the rest as a document: ragforge add FILE",
        )


def _how(caller: Caller, said: SayRequest, cancel: Cancel) -> dict[str, Any]:
    return {
        "model": said.model,
        "probe": said.probe,
        "mode": said.mode,
        "describe": _describes(caller, said.describe),
        "turn": said.turn,
        "request": caller.request,
        "cancel": cancel,
    }


def _describes(caller: Caller, wanted: bool) -> bool:
    """Whether what is known of the organisation may be changed on the way."""
    return wanted and caller.principal.may(Action.WRITE)


def _told(caller: Caller, event: InterviewEvent) -> Told:
    fields = event_fields(event)
    name = str(fields["event"])
    return Told(name, json_text(caller.seen({"event": name, "record": event} if caller.records else fields)))


@router.post(f"{_ONE}/undo", response_model=StateFields)
def undo(project: str, interview: str, caller: Called) -> Response:
    """Take back the last turn, with all that came of it. Its number is not given again."""
    return caller.shown(caller.forge.discovery.undo(interview, project=project), state_fields)


@router.get(f"{_ONE}/versions", response_model=page_of(VersionFields))
def versions(project: str, interview: str, caller: Called, paging: Paged) -> Response:
    """The states of an interview that are kept, newest first: as far back as turns can be taken back."""
    found = caller.forge.discovery.versions(interview, project=project)
    return _page(caller, paging, found, version_fields, lambda each: str(each.version))


# -- corrections


@router.post(f"{_ONE}/assumptions", status_code=201, response_model=AssumptionFields)
def add_assumption(project: str, interview: str, wanted: AssumptionRequest, caller: Called) -> Response:
    """Register what is taken for true without proof."""
    added = caller.forge.discovery.add_assumption(
        wanted.statement,
        interview,
        project=project,
        confidence=wanted.confidence,
        impact=wanted.impact,
        depends_on=wanted.depends_on,
    )
    return caller.shown(added, assumption_fields, 201)


@router.patch(f"{_ONE}/assumptions/{{assumption}}", response_model=StateFields)
def revise_assumption(
    project: str, interview: str, assumption: str, change: AssumptionChange, caller: Called
) -> Response:
    """Change an assumption, or say what became of it: what rests on one that is refuted is shaken. All comes back."""
    state = caller.forge.discovery.revise_assumption(assumption, interview, project=project, **change.model_dump())
    return caller.shown(state, state_fields)


@router.delete(f"{_ONE}/assumptions/{{assumption}}", response_model=StateFields)
def remove_assumption(project: str, interview: str, assumption: str, caller: Called) -> Response:
    """Take an assumption out of the register."""
    return caller.shown(caller.forge.discovery.remove_assumption(assumption, interview, project=project), state_fields)


@router.post(f"{_ONE}/points", status_code=201, response_model=PointFields)
def add_point(project: str, interview: str, wanted: PointRequest, caller: Called) -> Response:
    """Write a sentence into a section of the document."""
    added = caller.forge.discovery.add_point(wanted.section, wanted.text, interview, project=project)
    return caller.shown(added, point_fields, 201)


@router.patch(f"{_ONE}/points/{{point}}", response_model=StateFields)
def revise_point(project: str, interview: str, point: str, change: PointChange, caller: Called) -> Response:
    """Put a sentence of the document in other words, or into another section. All comes back."""
    state = caller.forge.discovery.revise_point(point, interview, project=project, **change.model_dump())
    return caller.shown(state, state_fields)


@router.delete(f"{_ONE}/points/{{point}}", response_model=StateFields)
def remove_point(project: str, interview: str, point: str, caller: Called) -> Response:
    """Take a sentence out of the document."""
    return caller.shown(caller.forge.discovery.remove_point(point, interview, project=project), state_fields)


@router.put(f"{_ONE}/mode", response_model=StateFields)
def set_mode(project: str, interview: str, wanted: InterviewMode, caller: Called) -> Response:
    """Go on with the other half of discovery."""
    return caller.shown(caller.forge.discovery.set_mode(wanted.mode, interview, project=project), state_fields)


# -- what it ends in


@router.get(
    f"{_ONE}/document",
    response_model=shape(Artifact),
    responses={200: {"content": {media: {} for media in MEDIA.values()}}},
)
def document(
    project: str,
    interview: str,
    caller: Called,
    mode: Annotated[str, Query(max_length=1_000, description="Of which half; empty: of the one it is in")] = "",
    title: Annotated[str, Query(max_length=LONGEST_TITLE)] = "",
    format: Literal["json", "md", "docx"] = "json",
) -> Response:
    """The document as it stands now; with `format` as Markdown or for Word. Nothing is kept."""
    desk = caller.forge.discovery
    known = desk.get(interview, project=project)
    made = desk.document(known.id, project=project, mode=mode, title=title)
    if format == "json":
        return caller.shown(made)
    return attached(caller.forge.rendered(made, f".{format}"), f"{made.kind}-{known.id[:8]}", format)


@router.post(f"{_ONE}/document", status_code=201, response_model=shape(Artifact))
def keep_document(project: str, interview: str, wanted: InterviewDocument, caller: Called) -> Response:
    """Keep the document as it stands now among those that were made from the project, for all who reach it."""
    made = caller.forge.discovery.document(interview, project=project, mode=wanted.mode, title=wanted.title, keep=True)
    return caller.shown(made, status=201)


# -- what all interviews build on


@router.get("/projects/{project}/org-context", response_model=OrgContextFields)
def org_context(project: str, caller: Called) -> Response:
    """What is known of the organisation: all who are interviewed about the project build on it."""
    return caller.shown({"text": caller.forge.discovery.org_context(project=project)})


@router.put("/projects/{project}/org-context", response_model=OrgContextFields)
def set_org_context(project: str, told: OrgContext, caller: Called) -> Response:
    """Say anew what is known of the organisation."""
    caller.forge.discovery.set_org_context(told.text, project=project)
    return caller.shown({"text": caller.forge.discovery.org_context(project=project)})


@router.get("/discovery/modes", response_model=page_of(ModeFields))
def modes(caller: Called, paging: Paged) -> Response:
    """What the interviewer knows: of each mode the sections of its document, its probes with their criteria, and the
    patterns it looks for."""
    return _page(caller, paging, list(caller.forge.discovery.modes().values()), mode_fields, lambda each: each.name)


def _id(item: Any) -> str:
    return str(item.id)


def _page(
    caller: Caller, paging: Paging, items: Sequence[T], fields: Callable[[T], Any], name: Callable[[T], str] = _id
) -> Response:
    """A page of records, or of their fields for people."""
    page = paging.page(items, name)
    return caller.shown(page if caller.records else {**page, "items": [fields(each) for each in page["items"]]})
