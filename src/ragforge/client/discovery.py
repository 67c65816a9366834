"""`RemoteForge.discovery`: one method for each of `Ragforge.discovery`, as a call of the server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragforge.client.wire import exporter, project_at, request_header, step
from ragforge.domain.cancel import Cancel
from ragforge.domain.conversation import Conversation, Turn
from ragforge.domain.discovery import (
    Assumption,
    Changed,
    Decided,
    Gathered,
    Interview,
    InterviewEvent,
    InterviewState,
    InterviewTurn,
    Point,
    Progression,
    StateVersion,
    TurnDone,
)
from ragforge.domain.plain import decode
from ragforge.domain.records import Artifact

if TYPE_CHECKING:
    from ragforge.client.remote import RemoteForge
    from ragforge.discover.knowledge import Mode

LAST = "last"
_EVENTS: Mapping[str, type[Any]] = {"decided": Decided, "gathered": Gathered, "changed": Changed, "done": TurnDone}


class RemoteDiscovery:
    """Guided interviews of the key."""

    def __init__(self, forge: RemoteForge) -> None:
        self._forge = forge

    # -- interviews

    def begin(
        self, title: str = "", *, project: str = "default", mode: str = "problem", describe: bool = True
    ) -> Interview:
        """A new interview. `describe`: whether it may change what is known of the organisation, if the key may."""
        return _interview(self._forge._call("POST", _at(project), {"title": title, "mode": mode, "describe": describe}))

    def all(self, *, project: str = "default") -> list[Conversation]:
        """The one that was spoken in last first."""
        return self._forge._all(Conversation, _at(project))

    def get(self, id: str = LAST, *, project: str = "default") -> Interview:
        """One by its id, the beginning of it, or `last`."""
        return _interview(self._details(id, project))

    def rename(self, id: str, title: str, *, project: str = "default") -> Conversation:
        """Give it another title."""
        return self._forge._one(Conversation, "PATCH", _one_at(project, id), {"title": title})

    def remove(self, id: str, *, project: str = "default") -> Conversation:
        """Remove it for good, with its turns and all that it knows."""
        known = self.get(id, project=project).id
        return self._forge._one(Conversation, "DELETE", _one_at(project, known))

    def turns(self, id: str = LAST, *, project: str = "default") -> list[Turn]:
        """What was said, in its order."""
        known = self._known(id, project)  # of several pages, each must be of the same one
        return self._forge._all(Turn, f"{_one_at(project, known)}/turns")

    def opening(self, id: str = LAST, *, project: str = "default") -> str:
        """What the interviewer says before the first turn."""
        return str(self._details(id, project)["opening"])

    def progress(self, id: str = LAST, *, project: str = "default") -> list[Progression]:
        """How far each probe of its mode has come."""
        return decode(list[Progression], self._details(id, project)["progress"])

    def open_questions(self, id: str = LAST, *, project: str = "default") -> list[str]:
        """What nobody could tell, and what was not talked about."""
        return decode(list[str], self._details(id, project)["open_questions"])

    def modes(self) -> dict[str, Mode]:
        """What the interviewer knows: the shipped modes, with what the workspace's folder `discovery` changes."""
        from ragforge.discover.knowledge import Mode

        return {each.name: each for each in self._forge._all(Mode, "/v1/discovery/modes")}

    def _details(self, id: str, project: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._forge._call("GET", _one_at(project, id))
        return found

    # -- a turn

    def say(
        self,
        message: str,
        id: str = LAST,
        *,
        project: str = "default",
        model: str = "",
        probe: str = "",
        mode: str = "",
        describe: bool = True,
        turn: int = 0,
        request: str = "",
        cancel: Cancel | None = None,
    ) -> InterviewTurn:
        """What the interviewer answers, with the state after it."""
        events = self.saying(
            message, id, project=project, model=model, probe=probe, mode=mode, describe=describe, turn=turn,
            request=request, cancel=cancel,
        )  # fmt: skip
        return next(event.done for event in events if isinstance(event, TurnDone))

    def saying(
        self,
        message: str,
        id: str = LAST,
        *,
        project: str = "default",
        model: str = "",
        probe: str = "",
        mode: str = "",
        describe: bool = True,
        turn: int = 0,
        request: str = "",
        cancel: Cancel | None = None,
    ) -> Iterator[InterviewEvent]:
        """The same step by step: what was decided, read and registered, and the turn as it is stored.

        `model` is as in `ask`; `probe` and `mode` are what the person wants to be asked about; `turn` is the number it
        is meant to have, so that the same said twice counts once.
        """
        cancel, named = cancel or Cancel(), request_header({"request": request})
        cancel.check()
        body = {
            "message": message, "model": model, "probe": probe, "mode": mode, "describe": describe, "turn": turn,
        }  # fmt: skip
        return self._forge._streamed(f"{_one_at(project, id)}/turns", body, cancel, named, _EVENTS)

    def undo(self, id: str = LAST, *, project: str = "default") -> InterviewState:
        """Take back the last turn, with all that came of it."""
        return self._forge._one(InterviewState, "POST", f"{_one_at(project, id)}/undo")

    def versions(self, id: str = LAST, *, project: str = "default") -> list[StateVersion]:
        """The states that are kept, newest first."""
        return self._forge._all(StateVersion, f"{_one_at(project, id)}/versions")

    # -- corrections

    def add_assumption(
        self,
        statement: str,
        id: str = LAST,
        *,
        project: str = "default",
        confidence: str = "medium",
        impact: str = "medium",
        depends_on: Sequence[str] = (),
    ) -> Assumption:
        """Register what is taken for true; what depends on others may not close a circle."""
        body = {
            "statement": statement,
            "confidence": _word(confidence),
            "impact": _word(impact),
            "depends_on": list(depends_on),
        }
        return self._forge._one(Assumption, "POST", f"{_one_at(project, id)}/assumptions", body)

    def revise_assumption(
        self,
        assumption: str,
        id: str = LAST,
        *,
        project: str = "default",
        statement: str | None = None,
        confidence: str | None = None,
        impact: str | None = None,
        status: str | None = None,
        depends_on: Sequence[str] | None = None,
        evidence: str = "",
    ) -> InterviewState:
        """Change what is given. What rests on an assumption that is refuted is marked as shaken."""
        body = {
            "statement": statement,
            "confidence": None if confidence is None else _word(confidence),
            "impact": None if impact is None else _word(impact),
            "status": None if status is None else _word(status),
            "depends_on": None if depends_on is None else list(depends_on),
            "evidence": evidence,
        }
        path = f"{_one_at(project, id)}/assumptions/{step(assumption)}"
        return self._forge._one(InterviewState, "PATCH", path, body)

    def remove_assumption(self, assumption: str, id: str = LAST, *, project: str = "default") -> InterviewState:
        """Take one out of the register."""
        path = f"{_one_at(project, id)}/assumptions/{step(assumption)}"
        return self._forge._one(InterviewState, "DELETE", path)

    def add_point(self, section: str, text: str, id: str = LAST, *, project: str = "default") -> Point:
        """Write a sentence into a section of the document."""
        return self._forge._one(Point, "POST", f"{_one_at(project, id)}/points", {"section": section, "text": text})

    def revise_point(
        self,
        point: str,
        id: str = LAST,
        *,
        project: str = "default",
        text: str | None = None,
        section: str | None = None,
    ) -> InterviewState:
        """Put a sentence of the document in other words, or into another section."""
        path = f"{_one_at(project, id)}/points/{step(point)}"
        return self._forge._one(InterviewState, "PATCH", path, {"text": text, "section": section})

    def remove_point(self, point: str, id: str = LAST, *, project: str = "default") -> InterviewState:
        """Take a sentence out of the document."""
        return self._forge._one(InterviewState, "DELETE", f"{_one_at(project, id)}/points/{step(point)}")

    def set_mode(self, mode: str, id: str = LAST, *, project: str = "default") -> InterviewState:
        """Go on with the other half of discovery."""
        return self._forge._one(InterviewState, "PUT", f"{_one_at(project, id)}/mode", {"mode": mode})

    # -- what it ends in

    def document(
        self,
        id: str = LAST,
        *,
        project: str = "default",
        mode: str = "",
        title: str = "",
        out: str | os.PathLike[str] | None = None,
        keep: bool = False,
    ) -> Artifact:
        """The document as it stands now: Markdown or DOCX by the ending of `out`, which is a file here.

        With `keep` it is stored among the documents that were made from the project.
        """
        asked = {"mode": mode, "title": title}
        where = f"{_one_at(project, self._known(id, project) if out is not None else id)}/document"

        def written(artifact: Artifact, ending: str) -> bytes:
            if keep:
                return self._forge._rendered(artifact, ending, project)
            return self._forge._answer("GET", where, params={**asked, "format": ending.removeprefix(".")}).content

        export = exporter(written)
        if out is not None:
            export.require(Path(out))
        answer = self._forge._call("POST", where, asked) if keep else self._forge._call("GET", where, params=asked)
        made = decode(Artifact, answer)
        if out is not None:
            export(made, Path(out))
        return made

    def _known(self, id: str, project: str) -> str:
        """Its whole id, for what takes several calls."""
        return self.get(id, project=project).id

    # -- the organisation

    def org_context(self, *, project: str = "default") -> str:
        """What is known of the organisation."""
        return str(self._forge._call("GET", _org_at(project))["text"])

    def set_org_context(self, text: str, *, project: str = "default") -> None:
        """Say it anew; all who are interviewed about the project build on it."""
        self._forge._call("PUT", _org_at(project), {"text": text})


def _interview(answer: Mapping[str, Any]) -> Interview:
    """The rest of the answer is how far it has come."""
    return Interview(decode(Conversation, answer["talk"]), decode(InterviewState, answer["state"]))


def _word(text: str) -> str:
    return text.strip().lower()


def _at(project: str) -> str:
    return f"{project_at(project)}/discovery"


def _one_at(project: str, id: str) -> str:
    return f"{_at(project)}/{step(id)}"


def _org_at(project: str) -> str:
    return f"{project_at(project)}/org-context"
