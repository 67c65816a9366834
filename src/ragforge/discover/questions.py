"""What is asked next, and how a turn reads where rules write it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragforge.discover import skeleton
from ragforge.discover.ears import Ears
from ragforge.discover.fitting import shortened
from ragforge.discover.knowledge import Knowledge, Mode, Probe, Question, signalled
from ragforge.discover.route import is_done, unasked
from ragforge.domain.discovery import AskedQuestion, Change, Decision, InterviewState

FEWEST, MOST = 2, 3
"""Questions of one turn."""
_RECALLED = 7
"""Words by which a point is told in passing."""
_SUMMED_UP = 3
"""Points of a probe that a synthesis names."""


def still_open(state: InterviewState, probe: Probe) -> list[AskedQuestion]:
    """What was asked of a probe and is not answered, for somebody who comes back to it."""
    unmet = [each for each in state.asked if each.probe == probe.key and not each.answered]
    return [each for each in unmet if not skeleton.is_met(state, probe.path(each.criterion))][:MOST]


def chosen(state: InterviewState, mode: Mode, decision: Decision, message: str, ears: Ears) -> list[AskedQuestion]:
    """One cluster of the probe: what of it is not asked and not answered; a follow-up first, if the message calls for
    one."""
    probe, turn = mode.probes[decision.probe], state.turn
    asked = {each.text for each in state.asked}
    open_ones = unasked(state, probe)
    picked: list[Question] = _follow_ups(probe, message, asked, ears)[:1] if not decision.filler else []
    cluster = next((each for each in probe.clusters if any(one in open_ones for one in each.questions)), None)
    if cluster is not None:
        picked += [each for each in cluster.questions if each in open_ones]
    if len(picked) < FEWEST:
        picked += _of_patterns(state, mode, decision, probe, asked)
    if len(picked) < FEWEST:
        picked += [each for each in open_ones if each not in picked]
    if len(picked) < FEWEST and cluster is not None:  # what was touched on can be asked more closely
        picked += [each for each in cluster.questions if each.ask not in asked]
    unique = list({each.ask: each for each in picked}.values())[:MOST]
    return [AskedQuestion(each.ask, probe.key, each.criterion, turn) for each in unique]


def _follow_ups(probe: Probe, message: str, asked: set[str], ears: Ears) -> list[Question]:
    terms = ears.stems(message)
    return [
        Question(each.ask, each.criterion)
        for each in probe.follow_ups
        if each.ask not in asked and signalled(each.signals, terms, ears.stems)
    ]


def _of_patterns(
    state: InterviewState, mode: Mode, decision: Decision, probe: Probe, asked: set[str]
) -> list[Question]:
    questions = [one for key in decision.patterns for one in mode.patterns[key].questions if one.probe == probe.key]
    return [
        each for each in questions if each.ask not in asked and not skeleton.is_met(state, probe.path(each.criterion))
    ]


def offered(state: InterviewState, mode: Mode, knowledge: Knowledge) -> str:
    """The mode to offer, once everything of this one was asked."""
    if any(not is_done(state, probe) for probe in mode.probes.values()):
        return ""
    names = list(knowledge)
    later = names[names.index(mode.name) + 1 :]
    return later[0] if later else ""


# -- a reply by rules


@dataclass(frozen=True, slots=True)
class FromDocuments:
    """What the documents say to a question."""

    question: AskedQuestion
    text: str
    """Quoted, with its markers."""
    answers: bool
    """Surely enough that it need not be asked."""


def reply(
    before: InterviewState,
    state: InterviewState,
    mode: Mode,
    knowledge: Knowledge,
    decision: Decision,
    changes: Sequence[Change],
    answered: str,
    documents: Sequence[FromDocuments],
    questions: Sequence[AskedQuestion],
    offer: str,
    again: Sequence[AskedQuestion] = (),
    why: str = "",
) -> str:
    """What was noted, what the documents say, what is asked next."""
    parts = [noted(changes)]
    if answered:
        parts.append(answered)
    if decision.micro_synthesis and before.probe and (summary := synthesis(state, knowledge, before)):
        parts.append(summary)
    probe = mode.probes[decision.probe]
    if questions and not again and (decision.probe != before.probe or decision.mode != before.mode):
        parts.append(f"**{probe.title}.** {probe.purpose}")
    parts += [
        f"On “{each.question.text}” the documents already say:\n\n{each.text}" for each in documents if each.answers
    ]
    if also := "\n".join(each.text for each in documents if not each.answers):
        parts.append(f"The documents say on this:\n\n{also}")
    if again:
        parts.append(why or "Back to where we were:")
        parts.append(listed(again))
    elif questions:
        parts.append(listed(questions))
    elif documents:
        parts.append("What of this is no longer so, and what is missing?")
    elif offer:
        parts.append(
            f"That was everything on “{mode.title}”; the {mode.document.lower()} can be read and exported now. "
            f"Shall we go on to “{knowledge[offer].title}”?"
        )
    else:
        parts.append(
            f"That was everything I wanted to ask: the {mode.document.lower()} can be read and exported. "
            "What would you add or correct?"
        )
    return "\n\n".join(filter(None, parts))


def listed(questions: Sequence[AskedQuestion]) -> str:
    return "\n".join(f"{number}. {each.text}" for number, each in enumerate(questions, 1))


def noted(changes: Sequence[Change]) -> str:
    """What a turn took down, in a line or two."""
    points = [each.text.partition(": ") for each in changes if each.tool == "fill_section" and not each.refused]
    lines = []
    if points:
        by_section: dict[str, list[str]] = {}
        for section, _, text in points:
            by_section.setdefault(section.replace("-", " "), []).append(f"“{shortened(text, _RECALLED)}”")
        lines.append(
            "Noted under " + "; ".join(f"{name}: {', '.join(told)}" for name, told in by_section.items()) + "."
        )
    lines += [f"{each.text.partition(' was: ')[0]} is corrected." for each in changes if each.tool == "correct_point"]
    lines += [f"Assumption {each.text}." for each in changes if each.tool == "register_assumption" and not each.refused]
    lines += [f"{each.text}." for each in changes if each.tool == "update_assumption" and not each.refused]
    unknown = [each for each in changes if each.tool == "open_question"]
    if unknown:
        lines.append(f"Kept as open question{'s' * (len(unknown) > 1)}: {' '.join(each.text for each in unknown)}")
    return "\n\n".join(line.replace("..", ".").replace(".).", ".)") for line in lines)


def synthesis(state: InterviewState, knowledge: Knowledge, before: InterviewState) -> str:
    """What is understood of the probe that was asked before."""
    mode = knowledge[before.mode]
    probe = mode.probes[before.probe]
    points = [each for each in state.points if each.criterion.partition(".")[0] == probe.key][-_SUMMED_UP:]
    if not points:
        return ""
    told = "\n".join(f"- {each.text}" for each in points)
    return f"So far on “{probe.title}”:\n\n{told}"


def asked(state: InterviewState, questions: Sequence[AskedQuestion]) -> InterviewState:
    return replace(state, asked=(*state.asked, *questions))
