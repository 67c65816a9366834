"""`forge.discovery`: one method for each thing a person can do in a guided interview. No logic of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragforge.domain.access import Scope
from ragforge.domain.cancel import Cancel
from ragforge.domain.conversation import LONGEST_TITLE, Conversation, ConversationKind, Turn
from ragforge.domain.discovery import (
    BY_HAND,
    Assumption,
    Evidence,
    Interview,
    InterviewEvent,
    InterviewState,
    InterviewTurn,
    Level,
    Point,
    Progression,
    Standing,
    StateVersion,
    TurnDone,
)
from ragforge.domain.generation import Sampling
from ragforge.domain.library import Project
from ragforge.domain.records import Artifact
from ragforge.domain.retrieval import Tuning
from ragforge.errors import NotFound, UserError
from ragforge.ports import Catalog, LanguageModel, Unit

if TYPE_CHECKING:
    from ragforge.discover.knowledge import Mode
    from ragforge.flows.ask import Models
    from ragforge.flows.interview import Interviewer
    from ragforge.flows.make import Export

LAST = "last"


@dataclass(frozen=True, slots=True)
class Means:
    """What an interview needs of the workspace."""

    catalog: Catalog
    interviewer: Interviewer
    known: Callable[[Unit, str], Project]
    models: Callable[[str], tuple[str, Models]]
    """By the name or profile that somebody chose: the profile, and the models."""
    spending: Callable[[LanguageModel | None], AbstractContextManager[None]]
    export: Export[Artifact]
    tuning: Tuning
    sampling: Sampling
    timeout_seconds: float


class Discovery:
    """Guided interviews, in somebody's scope."""

    def __init__(self, scope: Scope, means: Means) -> None:
        self._scope = scope
        self._means = means

    def _project(self, c: Unit, slug: str) -> Project:
        return self._means.known(c, slug)

    # -- interviews

    def begin(
        self, title: str = "", *, project: str = "default", mode: str = "problem", describe: bool = True
    ) -> Interview:
        """A new interview. `describe`: whether it may change what is known of the organisation."""
        from ragforge.flows.interview import UNTITLED

        name = _short(" ".join(title.split())) or UNTITLED
        return self._means.interviewer.begin(self._scope, project, name, mode, describe=describe)

    def all(self, *, project: str = "default") -> list[Conversation]:
        """The one that was spoken in last first."""
        with self._means.catalog.read() as c:
            talks = c.conversations.all(self._scope, self._project(c, project).id)
        return [each for each in talks if each.kind is ConversationKind.DISCOVERY]

    def get(self, id: str = LAST, *, project: str = "default") -> Interview:
        """One by its id, the beginning of it, or `last`."""
        talk = self._talk(id, project)
        with self._means.catalog.read() as c:
            state = c.interviews.get(self._scope, self._project(c, project).id, talk.id)
        return Interview(talk, state)

    def _talk(self, id: str, project: str) -> Conversation:
        talks = self.all(project=project)
        if id == LAST and talks:
            return talks[0]
        found = [each for each in talks if each.id == id] or [each for each in talks if id and each.id.startswith(id)]
        if len(found) == 1:
            return found[0]
        if found:
            raise UserError(f"{len(found)} interviews begin with {id!r}", hint="write more of the id")
        hint = "ragforge discover ls shows yours" if talks else "ragforge discover begins one"
        raise NotFound(f"no interview {id!r}", hint=hint)

    def rename(self, id: str, title: str, *, project: str = "default") -> Conversation:
        """Give it another title."""
        if not (name := _short(" ".join(title.split()))):
            raise UserError("the title is empty", hint="give it some words")
        talk = self._talk(id, project)
        with self._means.catalog.write() as c:
            return c.conversations.rename(self._scope, self._project(c, project).id, talk.id, name)

    def remove(self, id: str, *, project: str = "default") -> Conversation:
        """Remove it for good, with its turns and all that it knows."""
        talk = self._talk(id, project)
        with self._means.catalog.write() as c:
            c.conversations.remove(self._scope, self._project(c, project).id, talk.id)
        self._means.catalog.flush()
        return talk

    def turns(self, id: str = LAST, *, project: str = "default") -> list[Turn]:
        """What was said, in its order."""
        talk = self._talk(id, project)
        with self._means.catalog.read() as c:
            return c.conversations.turns(self._scope, self._project(c, project).id, talk.id)

    def opening(self, id: str = LAST, *, project: str = "default") -> str:
        """What the interviewer says before the first turn."""
        return self.get(id, project=project).state.opening

    def progress(self, id: str = LAST, *, project: str = "default") -> list[Progression]:
        """How far each probe of its mode has come."""
        from ragforge.discover.route import progress

        state = self.get(id, project=project).state
        return progress(state, self.modes()[state.mode])

    def open_questions(self, id: str = LAST, *, project: str = "default") -> list[str]:
        """What nobody could tell, and what was not talked about."""
        from ragforge.discover.document import open_questions

        state = self.get(id, project=project).state
        return open_questions(state, self.modes()[state.mode])

    def modes(self) -> dict[str, Mode]:
        """What the interviewer knows: the shipped modes, with what the workspace's folder `discovery` changes."""
        return dict(self._means.interviewer.knowledge())

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
        from ragforge.flows.interview import Saying

        means = self._means
        profile, models = means.models(model)
        said = Saying(
            message, means.tuning, means.sampling, probe, mode, describe, turn, profile, means.timeout_seconds, request
        )
        talk = self._talk(id, project)
        with means.spending(models.main):
            yield from means.interviewer.turn(self._scope, project, talk.id, said, models, cancel or Cancel())

    def undo(self, id: str = LAST, *, project: str = "default") -> InterviewState:
        """Take back the last turn, with all that came of it."""
        talk = self._talk(id, project)
        state = self._means.interviewer.undo(self._scope, project, talk.id)
        self._means.catalog.flush()
        return state

    def versions(self, id: str = LAST, *, project: str = "default") -> list[StateVersion]:
        """The states that are kept, newest first."""
        return self._means.interviewer.versions(self._scope, self._id(project), self._talk(id, project).id)

    def _id(self, slug: str) -> str:
        with self._means.catalog.read() as c:
            return self._project(c, slug).id

    # -- corrections

    def _edit(self, id: str, project: str, change: Callable[[InterviewState], InterviewState]) -> InterviewState:
        talk = self._talk(id, project)
        return self._means.interviewer.edit(self._scope, self._id(project), talk.id, change)

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
        from ragforge.discover import register
        from ragforge.flows.interview import subject

        sure, weighs = _level(confidence), _level(impact)

        def change(state: InterviewState) -> InterviewState:
            return register.registered(
                state, statement, confidence=sure, impact=weighs, probe=state.probe, turn=BY_HAND,
                subject=subject, depends_on=depends_on,
            )[0]  # fmt: skip

        return self._edit(id, project, change).assumptions[-1]

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
        from ragforge.discover import register

        def change(state: InterviewState) -> InterviewState:
            return register.revised(
                state, assumption, statement=statement, confidence=_maybe(confidence), impact=_maybe(impact),
                status=None if status is None else _standing(status), depends_on=depends_on,
                evidence=Evidence(evidence.strip(), BY_HAND) if evidence.strip() else None,
            )[0]  # fmt: skip

        return self._edit(id, project, change)

    def remove_assumption(self, assumption: str, id: str = LAST, *, project: str = "default") -> InterviewState:
        """Take one out of the register."""
        from ragforge.discover import register

        return self._edit(id, project, lambda state: register.removed(state, assumption))

    def add_point(self, section: str, text: str, id: str = LAST, *, project: str = "default") -> Point:
        """Write a sentence into a section of the document."""
        from ragforge.discover import skeleton
        from ragforge.flows.interview import subject

        modes = self.modes()

        def change(state: InterviewState) -> InterviewState:
            mode = next((each for each in modes.values() if each.section(section)), modes[state.mode])
            after, point = skeleton.pointed(state, mode, section, text, BY_HAND, subject=subject)
            if point is None:
                raise UserError("the section says that already", hint="nothing was added")
            return after

        return self._edit(id, project, change).points[-1]

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
        from ragforge.discover import skeleton

        sections = [section.key for mode in self.modes().values() for section in mode.sections]
        return self._edit(
            id, project, lambda state: skeleton.revised(state, point, sections, text=text, section=section)
        )

    def remove_point(self, point: str, id: str = LAST, *, project: str = "default") -> InterviewState:
        """Take a sentence out of the document."""
        from ragforge.discover import skeleton

        return self._edit(id, project, lambda state: skeleton.removed(state, point))

    def set_mode(self, mode: str, id: str = LAST, *, project: str = "default") -> InterviewState:
        """Go on with the other half of discovery."""
        if mode not in (modes := self.modes()):
            raise UserError(f"no mode is called {mode!r}", hint=f"there are {', '.join(modes)}")
        return self._edit(
            id, project, lambda state: state if state.mode == mode else replace(state, mode=mode, probe="", offer="")
        )

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
        """The document as it stands now: Markdown or DOCX by the ending of `out`.

        With `keep` it is stored among the documents that were made from the project.
        """
        if out is not None:
            self._means.export.require(Path(out))
        talk = self._talk(id, project)
        made = self._means.interviewer.document(self._scope, project, talk.id, mode, title)
        if keep:
            made = self._means.interviewer.keep_document(self._scope, project, made)
        if out is not None:
            self._means.export(made, Path(out))
        return made

    # -- the organisation

    def org_context(self, *, project: str = "default") -> str:
        """What is known of the organisation."""
        return self._means.interviewer.org_context(self._scope, project)

    def set_org_context(self, text: str, *, project: str = "default") -> None:
        """Say it anew; all who are interviewed about the project build on it."""
        self._means.interviewer.set_org_context(self._scope, project, text)


def _short(title: str) -> str:
    if len(title) > LONGEST_TITLE:
        raise UserError(f"the title has {len(title):,} characters", hint=f"give it at most {LONGEST_TITLE:,}")
    return title


def _level(text: str) -> Level:
    try:
        return Level(text.strip().lower())
    except ValueError:
        raise UserError(f"{text!r} is no level", hint="say low, medium or high") from None


def _maybe(text: str | None) -> Level | None:
    return None if text is None else _level(text)


def _standing(text: str) -> Standing:
    try:
        return Standing(text.strip().lower())
    except ValueError:
        raise UserError(f"an assumption cannot be {text!r}", hint="say open, confirmed or refuted") from None
