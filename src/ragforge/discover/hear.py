"""What a message says, by rules: whether it is filler, what it states, what it assumes, and what it takes back."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ragforge.discover import register, skeleton
from ragforge.discover.knowledge import Mode, Probe, Stems, signalled, strength
from ragforge.domain.discovery import (
    UNKNOWN,
    AskedQuestion,
    Change,
    Evidence,
    InterviewState,
    Level,
    Standing,
)
from ragforge.domain.sentences import sentence_starts
from ragforge.errors import RagforgeError


@dataclass(frozen=True, slots=True)
class Ears:
    """How texts become words; given by whoever knows the tokenizer."""

    stems: Stems
    """All terms of a text, in their order."""
    subject: Callable[[str], Collection[str]]
    """The stems of its telling words."""
    casual: Callable[[str], bool]
    """Whether it is a greeting, thanks, a bare yes."""


# -- filler

_MOVE_ON = re.compile(
    r"(?:(?:yes|yeah|yep|ok|okay|sure|right|fine|alright|thanks|great|good|please|and|let['’]?s|lets|we can|you can|"
    r"just|that(?:['’]s| is| all)?|this|it|all|makes?|made|making|sense|sounds?|looks?|go|goes|ahead|on|continue|"
    r"proceed|next|move|moving|on|along|carry|keep|going|skip|pass|question|one|to|the|i|see|agreed?|agree|got|"
    r"understood|noted|correct|exactly|nothing|more|add|to|no|nope|nah|not|really|now)[\s,.!…;:-]*){1,10}",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    r"\b(?:i|we|nobody|no one)\b[^.?!]{0,20}\b(?:don['’]?t|do not|cannot|can['’]?t|doesn['’]?t|does not)\b[^.?!]{0,12}"
    r"\b(?:know|tell|say|sure)\b|\bno idea\b|\bnot sure\b|\bunclear\b|\bnobody knows\b|\bunknown\b|\bto be decided\b|"
    r"\btbd\b|\bskip (?:this|that|it)\b",
    re.IGNORECASE,
)
_YES_NO = re.compile(
    r"^(?:(?:and|or|so|then|also|otherwise|before that|first|now)[, ]+)*(?:shall|should|would|do|does|did|is|are|was|"
    r"were|can|could|will|may|have|has|had|am|isn['’]t|don['’]t|doesn['’]t|want me|ready|okay if|ok if|right)\b",
    re.IGNORECASE,
)
_LONGEST_FILLER = 80


def is_filler(message: str, last_answer: str, ears: Ears) -> bool:
    """Whether there is nothing to go on: “yes”, “continue”, “that makes sense, move on”.

    After an offer or a question that can be answered with yes, the same words are an answer. An interviewer asks all
    the time; “yes” to “Who decides?” is none.
    """
    text = message.strip()
    if not re.search(r"\w", text):
        return True
    if len(text) > _LONGEST_FILLER or not (ears.casual(text) or _MOVE_ON.fullmatch(text)):
        return False
    return not can_be_agreed_to(last_answer)


def can_be_agreed_to(answer: str) -> bool:
    """Whether the last thing asked is an offer, or takes a yes or no."""
    asked = [piece for piece in statements(answer) if piece.rstrip('*_ )"”').endswith("?")]
    return bool(asked) and bool(_YES_NO.match(_bare(asked[-1])))


_LEADS = re.compile(r"^(?:[\s>*_#–-]|\d{1,2}[.)])*")


def _bare(sentence: str) -> str:
    """Without the marks of lists and emphasis; of “So far so good: shall I go on?”, what is asked."""
    text = _LEADS.sub("", sentence)
    return re.split(r"(?<=[:;–—])\s+", text)[-1]


_YES = re.compile(r"\s*(?:yes|yeah|yep|sure|ok(?:ay)?|please|of course|gladly|let['’]?s|go)\b", re.IGNORECASE)
_NO = re.compile(r"\s*(?:no|nope|nah|not|never|later|don['’]?t|rather not|wait|hold)\b", re.IGNORECASE)
_LONGEST_YES = 10


def agrees(message: str, ears: Ears) -> bool:
    """Whether it takes an offer up: a yes with few words beside it, or what would be filler otherwise."""
    if _NO.match(message) or len(message.split()) > _LONGEST_YES:
        return False
    return ears.casual(message) or bool(_YES.match(message) or _MOVE_ON.fullmatch(message.strip()))


# -- statements

_MARKER = re.compile(r"[ \t]*(?:[-*+•>]|#{1,6}|\d{1,3}[.)])[ \t]+")
_OPENERS = re.compile(
    r"^(?:(?:yes|yeah|yep|no|well|so|ok|okay|sure|right|hm+|um+|oh|actually|also|and|but|honestly|basically)[,.!…\s]+)+",
    re.IGNORECASE,
)
_FEWEST_WORDS = 4
LONGEST_STATEMENT = skeleton.LONGEST


def statements(message: str) -> list[str]:
    """Its sentences, one by one, without the marks of lists."""
    found: list[str] = []
    for line in message.split("\n"):
        start = marker.end() if (marker := _MARKER.match(line)) else 0
        borders = [start, *(at for at in sentence_starts(line, start, len(line)) if at < len(line)), len(line)]
        found += [piece for first, last in pairwise(borders) if (piece := line[first:last].strip())]
    return found


def is_quotable(sentence: str) -> bool:
    """Whether a sentence of a document can stand by itself."""
    whole = bool(re.match(r"[A-ZÀ-Þ0-9“„]", sentence)) and "](" not in sentence and "://" not in sentence
    return whole and not asks(sentence) and 5 <= len(sentence.split()) <= 60


def asks(statement: str) -> bool:
    return statement.rstrip('*_ )"”').endswith("?")


def only_asks(message: str) -> bool:
    """Whether a person asks something instead of saying something."""
    said = statements(message)
    return bool(said) and all(map(asks, said))


def _tells(statement: str) -> bool:
    """Whether it says enough to be written down: a few words, or a figure, or a name."""
    return len(statement.split()) >= _FEWEST_WORDS or bool(re.search(r"\d", statement))


# -- what is assumed

_GUESS = re.compile(
    r"\b(?:guess\w*|maybe|perhaps|might|not (?:quite |really |entirely )?sure|unsure|possibly|could be|i doubt|rumou?r|"
    r"gut feeling|hunch|supposedly|apparently)\b",
    re.IGNORECASE,
)
_BELIEF = re.compile(
    r"\b(?:think|believe|assum\w+|suppos\w+|expect\w*|probably|likely|presum\w+|seems?|should(?: be)?|hop(?:e|ing)|"
    r"suspect\w*|would (?:probably )?(?:be|use|pay|want|save|buy|like|accept|switch)|in (?:my|our) (?:view|opinion)|"
    r"as far as (?:i|we) know|we imagine|typically|tend to|usually)\b",
    re.IGNORECASE,
)
_SWEEPING = re.compile(
    r"\b(?:always|never|every(?:one|body)|obviously|clearly|of course|surely|certainly|all of (?:them|"
    r"our)|will (?:certainly |surely |definitely )?(?:love|want|need|use|pay|accept|save|switch|buy))\b",
    re.IGNORECASE,
)
_RESTS = re.compile(r"\b(?:if|provided|depends? on|relies on|rely on|as long as|unless|because|only works)\b", re.I)
_NAMED = re.compile(r"\bA(\d{1,4})\b")
_REFUTES = re.compile(
    r"\b(?:wrong|false|refuted|not true|untrue|incorrect|no longer|disproved|doesn['’]?t hold|does not hold|not the "
    r"case|turned out (?:not|to be (?:wrong|false)))\b",
    re.IGNORECASE,
)
_CONFIRMS = re.compile(
    r"\b(?:confirmed|true|correct|proved|proven|verified|holds?|validated|certain|checked)\b", re.IGNORECASE
)
_CORRECTS = re.compile(
    r"\b(?:actually|turn(?:s|ed) out|in fact|after all|i was wrong|we were wrong|correction)\b", re.I
)
_DENIES = re.compile(
    r"\b(?:not|no|never|isn['’]?t|aren['’]?t|don['’]?t|doesn['’]?t|won['’]?t|wasn['’]?t|cannot)\b", re.I
)
_OVERLAP = 0.4
"""Of an assumption's telling words, in a sentence that takes it back without its number."""


def confidence_of(statement: str) -> Level | None:
    """How sure somebody is of what they say; None if they state it as it is."""
    if _GUESS.search(statement):
        return Level.LOW
    if _BELIEF.search(statement) or _SWEEPING.search(statement):
        return Level.MEDIUM
    return None


# -- all of it


@dataclass(frozen=True, slots=True)
class Heard:
    """The state after a message, and what was done to it."""

    state: InterviewState
    changes: tuple[Change, ...]


def hear(message: str, state: InterviewState, mode: Mode, turn: int, ears: Ears) -> Heard:
    """Take down what a message states: points, assumptions, criteria that are met, assumptions that fall."""
    changes: list[Change] = []
    pending = state.pending
    told = [each for each in statements(message) if not asks(each)]
    place = 0
    for statement in told:
        judged, state = _judge(statement, state, turn, ears, changes)
        if judged:
            continue
        if _UNKNOWN.search(statement) and len(statement.split()) < 16:
            state = _untold(state, mode, pending, statement, ears, changes)
            continue
        said = _OPENERS.sub("", statement).strip()
        if not _tells(said) or ears.casual(said):
            continue
        path = _criterion(said, state, mode, pending, place, ears)
        place += 1
        state = _noted(said, path, state, mode, turn, ears, changes)
    return Heard(state, tuple(changes))


def _judge(
    statement: str, state: InterviewState, turn: int, ears: Ears, changes: list[Change]
) -> tuple[bool, InterviewState]:
    """“A2 is wrong”; “it turned out that …” about something that was assumed."""
    ids = [f"A{number}" for number in _NAMED.findall(statement)]
    known = [each.id for each in state.assumptions if each.id in ids]
    status = (
        Standing.REFUTED if _REFUTES.search(statement) else Standing.CONFIRMED if _CONFIRMS.search(statement) else None
    )
    if not known and _CORRECTS.search(statement) and (_DENIES.search(statement) or _REFUTES.search(statement)):
        words = set(ears.subject(statement))
        for each in state.assumptions:
            own = set(ears.subject(each.statement))
            if each.status is not Standing.REFUTED and len(own) > 1 and len(own & words) >= _OVERLAP * len(own):
                known, status = [each.id], Standing.REFUTED
                break
    if not known or status is None:
        return False, state
    for id in known:
        state, touched = register.revised(state, id, status=status, evidence=Evidence(_cut(statement), turn))
        changes.append(Change("update_assumption", settled(id, status, touched)))
    return True, state


def settled(id: str, status: Standing, touched: Sequence[str]) -> str:
    """What became of an assumption, and of what rests on it."""
    if not touched:
        return f"{id} is {status}"
    others, verb = ", ".join(touched), "rests" if len(touched) == 1 else "rest"
    what = "is shaken" if len(touched) == 1 else "are shaken"
    if status is not Standing.REFUTED:
        what = "is open again" if len(touched) == 1 else "are open again"
    return f"{id} is {status}; {others} {verb} on it and {what}"


def _untold(
    state: InterviewState,
    mode: Mode,
    pending: Sequence[AskedQuestion],
    statement: str,
    ears: Ears,
    changes: list[Change],
) -> InterviewState:
    """“I do not know” is an answer, too: what was asked becomes an open question."""
    open_ones = [each for each in pending if any(one is each for one in state.asked) and not each.answered]
    words = set(ears.subject(statement))
    meant = [each for each in open_ones if words & set(ears.subject(each.text))] or open_ones
    for question in meant:
        state = replace(
            state, asked=tuple(replace(one, answered=UNKNOWN) if one is question else one for one in state.asked)
        )
        path = f"{question.probe}.{question.criterion}"
        if mode.criterion(path) and not skeleton.is_met(state, path):
            state = skeleton.met(state, path, UNKNOWN)
            changes.append(Change("open_question", question.text))
    return state


def _criterion(
    statement: str, state: InterviewState, mode: Mode, pending: Sequence[AskedQuestion], place: int, ears: Ears
) -> str:
    """Which criterion a sentence speaks to: by its signals, by the words of what was asked, else by its place."""
    terms, words = ears.stems(statement), set(ears.subject(statement))
    asked = {f"{each.probe}.{each.criterion}": each for each in pending}
    best, most = "", 0.0
    for path in mode.paths:
        criterion = mode.criterion(path)
        assert criterion is not None
        section = mode.section(criterion.section)
        named = (criterion.key, section.heading if section else "", mode.probes[path.partition(".")[0]].key)
        score = float(strength(criterion.signals, terms, ears.stems))
        score += 2.5 * len(set().union(*(ears.subject(each.replace("-", " ")) for each in named)) & set(terms))
        if path in asked:
            score += 0.9 * len(words & set(ears.subject(asked[path].text))) + (0.9 if score else 0.0)
        elif path.startswith(f"{state.probe}."):
            score += 0.5 if score else 0.0
        else:
            score -= 1.2 if asked else 0.0  # one word may be a chance; what was asked is meant
        if score > most:
            best, most = path, score
    if best:
        return best
    if pending:
        chosen = pending[min(place, len(pending) - 1)]
        return f"{chosen.probe}.{chosen.criterion}"
    probe = mode.probes.get(state.probe) or next(iter(mode.probes.values()))
    unmet = [each.key for each in probe.criteria if not skeleton.is_met(state, probe.path(each.key))]
    return probe.path(unmet[0] if unmet else probe.criteria[0].key)


def _noted(
    statement: str, path: str, state: InterviewState, mode: Mode, turn: int, ears: Ears, changes: list[Change]
) -> InterviewState:
    """A point of the document; an assumption too, where somebody is not sure or claims too much."""
    criterion = mode.criterion(path)
    if criterion is None:
        return state
    text, assumption = _cut(statement), ""
    confidence = confidence_of(text)
    if confidence is not None:
        same = register.alike(state, text, ears.subject)
        if same:
            assumption = same.id
        else:
            try:
                state, new = register.registered(
                    state,
                    shorter(text, register.LONGEST),
                    confidence=confidence,
                    impact=Level.HIGH if criterion.critical else Level.MEDIUM,
                    probe=path.partition(".")[0],
                    turn=turn,
                    subject=ears.subject,
                    depends_on=_rests_on(text, state, ears),
                )
            except RagforgeError as problem:
                changes.append(Change("register_assumption", problem.message, refused=True))
            else:
                assumption = new.id
                changes.append(
                    Change(
                        "register_assumption",
                        f"{new.id}: {new.statement} (confidence {new.confidence}, impact {new.impact}"
                        + (f", depends on {', '.join(new.depends_on)})" if new.depends_on else ")"),
                    )
                )
    try:
        state, point = skeleton.pointed(
            state, mode, criterion.section, text, turn, subject=ears.subject, criterion=path, assumption=assumption
        )
    except RagforgeError as problem:
        changes.append(Change("fill_section", problem.message, refused=True))
        return state
    if point is not None:
        changes.append(Change("fill_section", f"{criterion.section}: {text}"))
    answered = tuple(
        replace(each, answered=turn) if f"{each.probe}.{each.criterion}" == path and not each.answered else each
        for each in state.asked
    )
    return skeleton.met(replace(state, asked=answered), path, turn)


def _rests_on(statement: str, state: InterviewState, ears: Ears) -> list[str]:
    """The assumptions that it names, or whose words it repeats after an “if”."""
    ids = {f"A{number}" for number in _NAMED.findall(statement)}
    named = [each.id for each in state.assumptions if each.id in ids]
    if named or not (condition := _RESTS.search(statement)):
        return named
    words = set(ears.subject(statement[condition.start() :]))
    return [
        each.id
        for each in state.assumptions
        if (own := set(ears.subject(each.statement))) and len(own & words) >= max(2, _OVERLAP * len(own))
    ][:3]


def _cut(statement: str) -> str:
    return shorter(" ".join(statement.split()), LONGEST_STATEMENT)


def shorter(text: str, characters: int) -> str:
    """The beginning of a text, cut after a word and marked as cut."""
    if len(text) <= characters:
        return text
    return text[: characters - 2].rsplit(" ", 1)[0] + " …"


def due(probe: Probe, message: str, ears: Ears) -> int:
    """How much a message calls for a probe."""
    return signalled(probe.signals, ears.stems(message), ears.stems)
