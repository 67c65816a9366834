"""What a message says, by rules: what it states, what it assumes, what it takes back, and what nobody knows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragforge.discover import register, skeleton
from ragforge.discover.ears import Ears, asks, shorter, statements
from ragforge.discover.fitting import capitalised
from ragforge.discover.knowledge import Criterion, Mode, Probe, signalled, strength
from ragforge.domain.discovery import (
    UNKNOWN,
    AskedQuestion,
    Change,
    Evidence,
    InterviewState,
    Level,
    Standing,
)
from ragforge.errors import RagforgeError

# -- statements

_OPENERS = re.compile(
    r"^(?:(?:yes|yeah|yep|no|well|so|ok|okay|sure|right|hm+|um+|oh|actually|also|and|but|honestly|basically)"
    r"[,.!…]+\s*)+",
    re.IGNORECASE,
)
"""With a pause after each: “no agents are trained” must not lose its no."""
_FEWEST_WORDS = 4
MOST_STATEMENTS = 30
"""Sentences of one message that are taken down."""
LONGEST_STATEMENT = skeleton.LONGEST
_SETTLES_HERE, _SETTLES = 2, 4
"""Signals by which a sentence meets a criterion that was not asked for: of the probe at hand, and of another."""
_LABEL = re.compile(r"([^\W\d_][\w /-]{2,30}):\s")
_LABELLED, _GOES_ON = 5.0, 0.6
"""“Risks: …” says itself what it is; and who goes on speaking mostly speaks of the same."""
_STRAYS, _ADDS = 2.5, 1.2
"""What signals of something else must outweigh, before and after everything that was asked is answered."""


def _tells(statement: str) -> bool:
    """Whether it says enough to be written down: a few words, or a figure, or a name."""
    return len(statement.split()) >= _FEWEST_WORDS or bool(re.search(r"\d", statement))


_TO_THE_INTERVIEWER = re.compile(
    r"\s*(?:(?:please )?(?:tell me|show me|give me|summari[sz]e what|go back to|(?:repeat|explain) (?:that|this|it|"
    r"the)|"
    r"stop asking)\b|that['’]?s none of|"
    r"(?:but |well,? |and )?(?:i|we)(?: have|['’]ve)? (?:already |just )?(?:told you|said (?:that|so|it)|"
    r"answered (?:that|it)|"
    r"mentioned (?:that|it))\b|(?:as|like) i (?:already )?(?:said|told you)|"
    r"you (?:never ask|already|did ?n['’]t ask|did not ask|keep asking|just asked|asked)|thank(?:s|"
    r" you)(?: [a-z]+)?[,.!]|"
    r"(?:that['’]?s? |that is )?a?n? ?(?:good|great|hard|difficult) (?:question|one)[,.!]|ask \w+[,.]|"
    r"let me (?:be clear|think)|never mind)",
    re.IGNORECASE,
)
"""Said of the talk, not of the matter."""
_CORRECTS_SELF = re.compile(
    r"\s*(?:(?:hm+|ok|no|oh|well|sorry|wait|actually)[,.!]+ )*(?:(?:sorry|(?:no )?wait|correction|scratch that|"
    r"(?:that|this)(?:['’]s| is| was) (?:wrong|not right))[,.:;!–-]+\s*|(?:i meant|(?:i )?(?:need|have|"
    r"want) to correct "
    r"(?:myself|that|this|it)|let me correct (?:myself|that|this|it)|i was wrong)\b[,.:;– -]*)",
    re.IGNORECASE,
)
"""With a pause after it: “Wait times” and “sorry customers” correct nothing."""
_DO_NOT_KNOW = (
    r"(?:(?:i|we) (?:really |just |simply |honestly )?(?:don['’]?t|do not|cannot|can['’]?t|couldn['’]?t) (?:really )?"
)
_DO_NOT_KNOW += r"(?:know|tell|say)|(?:i(?:['’]m| am) )?not sure|no idea|hard to say)"
_UNKNOWN = re.compile(
    rf"(?:(?:honestly|sorry|well|hm+|um+|but|and)[,.]? )*(?:{_DO_NOT_KNOW}(?: (?:that|this|it|yet|now|for sure|"
    rf"exactly|honestly|"
    r"offhand|either|what else|anything else|about (?:that|this|it)))*|nobody knows(?: (?:that|this|it|yet))?|unknown|"
    r"tbd|to be "
    r"decided|you tell me|ask (?:me )?later)(?:,? (?:honestly|sorry|you tell me|ask \w+|i(?:['’]d|"
    r" would) have to ask(?: around)?))?"
    r"[.!… ]*",
    re.IGNORECASE,
)
_UNSURE_OF = re.compile(
    rf"(?:(?:honestly|well|hm+)[,.]? )*{_DO_NOT_KNOW}(?:[,;:–-]+ ?(?:but |though )?|"
    rf"[^,.;]{{0,40}}? but )(?P<rest>\S.*)",
    re.IGNORECASE,
)
"""“I don't know, maybe 40 a week”: what follows is a guess."""
_OWN_QUESTION = re.compile(
    r"\b(?:i|we)(?: (?:also|still|really))?(?:(?:['’]m|['’]re| am| are|) (?:not (?:quite |really |yet )?(?:sure|"
    r"clear)|unsure)|"
    r" have(?: not|n['’]t) (?:yet )?decided| (?:don['’]?t|do not) (?:yet |really )?know| wonder)(?: yet)? "
    r"(?:whether|if|how|what|who|which|when|where|why)\b",
    re.IGNORECASE,
)
"""Something that the person would like to know."""


# -- what is assumed

_ESTIMATES = re.compile(
    r"\b(?:maybe|perhaps|probably|around|about|roughly) (?=\d|an?\b|one|two|three|four|five|six|seven|eight|nine|ten|"
    r"half)",
    re.IGNORECASE,
)
"""Before a number, they only say that it is round."""
_GUESS = re.compile(
    r"\b(?:guess\w*|maybe|perhaps|might|not (?:quite |really |entirely )?sure|unsure|possibly|could be|i doubt|"
    r"rumou?r|"
    r"gut|hunch|supposedly|apparently|vielleicht|womöglich|vermut\w+)\b",
    re.IGNORECASE,
)
_BELIEF = re.compile(
    r"\b(?:think|believe|assum\w+|suppos\w+|probably|likely|presum\w+|seems?|hop(?:e|ing)|"
    r"suspect\w*|would (?:probably )?(?:be|use|pay|want|save|buy|like|accept|switch)|in (?:my|our) (?:view|opinion)|"
    r"as far as (?:i|we) know|we imagine|theory|hypothes[ie]s|bet|only (?:agrees?|works?|helps?|pays?) if|"
    r"ich (?:glaube|denke|nehme an)|je (?:pense|crois)|creo que|"
    r"wahrscheinlich)\b",
    re.IGNORECASE,
)
_FORETELLS = re.compile(
    r"\b(?:certainly|surely|definitely|will (?:\w+ )?(?:love|want|need|use|pay|accept|save|switch|buy|fix|solve|"
    r"help))\b|"
    r"^if\b.+\b(?:will|would|won['’]t|wouldn['’]t|could|can)\b",
    re.IGNORECASE,
)
_THAT_ASSUMES = re.compile(
    r"\s*(?:and |but )?(?:that|this|it|which) (?:assumes?|supposes|presupposes)(?: that)? ", re.IGNORECASE
)
_RESTS = re.compile(r"\b(?:if|provided|depends? on|relies on|rely on|as long as|unless|because|only works)\b", re.I)
_NAMED = re.compile(r"\bA(\d{1,4})\b", re.IGNORECASE)
_HOLDS = r"confirmed|true|correct|right|proved|proven|verified|validated"
_FAILS = r"wrong|false|refuted|untrue|incorrect|disproved|nonsense"
_VERDICT = re.compile(
    rf"\bA(?P<id>\d{{1,4}})\b,? (?:(?:is|was|are|were|has been|turned out|turns out|proved|still|clearly|also|to be|"
    rf"not|"
    rf"no longer|never|isn['’]t|wasn['’]t|does|doesn['’]t|did|didn['’]t|just|simply|actually|"
    rf"now) )*(?:(?P<holds>{_HOLDS}|holds?(?: true| up)?"
    rf"(?=[.,;!:]|$)|a fact)|(?P<fails>{_FAILS}))\b",
    re.IGNORECASE,
)
_DENIED = re.compile(r"\b(?:not|no longer|never|\w+n['’]t)\b", re.IGNORECASE)
_UNDECIDED = re.compile(
    r"\b(?:might|may|maybe|perhaps|could|whether|if|yet|think|guess|believe|know|not sure|probably)\b", re.IGNORECASE
)
_REFUTES = re.compile(rf"\b(?:{_FAILS}|not true|not the case|no longer)\b", re.IGNORECASE)
_FACT = re.compile(r"\b(?:is|it['’]s|that['’]s) (?:just |simply |actually )?a fact\b", re.IGNORECASE)
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
    plain = _ESTIMATES.sub("", statement)
    if _GUESS.search(plain):
        return Level.LOW
    if _BELIEF.search(plain) or _FORETELLS.search(plain) or _THAT_ASSUMES.match(plain):
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
    pending = [each for each in state.pending if mode.criterion(f"{each.probe}.{each.criterion}")]
    told = [each for each in statements(message) if not asks(each)]
    before, place = "", 0
    for statement in told[:MOST_STATEMENTS]:
        judged, state = _judge(statement, state, turn, ears, changes)
        if judged or _TO_THE_INTERVIEWER.match(statement):
            continue
        if _UNKNOWN.fullmatch(statement):
            state = _untold(state, mode, pending, changes)
            continue
        if _OWN_QUESTION.search(statement) and len(statement.split()) > _FEWEST_WORDS:
            question = AskedQuestion(_cut(statement), state.probe, "", turn, UNKNOWN)
            state = replace(state, asked=(*state.asked, question))
            changes.append(Change("open_question", question.text))
            continue
        said = _OPENERS.sub("", statement).strip()
        guess = _UNSURE_OF.match(said)
        said = guess["rest"] if guess else said
        if corrects := _CORRECTS_SELF.match(said):
            state, said = _corrected(said[corrects.end() :].strip(), state, turn, ears, changes)
        if not said or ears.casual(said) or not (_tells(said) or (pending and ears.subject(said))):
            continue
        path = _criterion(said, state, mode, pending, place, ears, before)
        asked = any(f"{each.probe}.{each.criterion}" == path for each in pending)
        before, place = path, place + 1
        state = _noted(said, path, state, mode, turn, ears, changes, asked=asked, guess=guess is not None)
    if len(told) > MOST_STATEMENTS:
        left = len(told) - MOST_STATEMENTS
        why = f"{left:,} more sentences were not taken down: say less at once, or add the text as a file"
        changes.append(Change("fill_section", why, refused=True))
    return Heard(state, tuple(changes))


def _corrected(
    said: str, state: InterviewState, turn: int, ears: Ears, changes: list[Change]
) -> tuple[InterviewState, str]:
    """“Sorry, 9 months”: what was said just before, or shares most words with it, goes; the new words tell of it."""
    if not said:
        return state, said
    words = set(ears.subject(said))
    own = [each for each in state.points if not each.cited]
    just_now = [each for each in own if each.turn == turn]
    alike = sorted(own, key=lambda each: -len(words & set(ears.subject(each.text))))
    old = (
        just_now[-1] if just_now else alike[0] if alike and len(words & set(ears.subject(alike[0].text))) > 1 else None
    )
    if old is None:
        return state, said
    changes.append(Change("correct_point", f"{old.id} was: {old.text}"))
    state = skeleton.removed(state, old.id)
    return state, shorter(f"{said.rstrip('.')} (before: “{old.text}”)", LONGEST_STATEMENT)


def _judge(
    statement: str, state: InterviewState, turn: int, ears: Ears, changes: list[Change]
) -> tuple[bool, InterviewState]:
    """“A2 is wrong”; “it turned out that …” about something that was assumed. Who is not sure judges nothing."""
    verdicts = _verdicts(statement, state)
    if not verdicts and _CORRECTS.search(statement) and (_DENIES.search(statement) or _REFUTES.search(statement)):
        words = set(ears.subject(statement))
        for each in state.assumptions:
            own = set(ears.subject(each.statement))
            if each.status is not Standing.REFUTED and len(own) > 1 and len(own & words) >= _OVERLAP * len(own):
                verdicts = {each.id: Standing.REFUTED}
                break
    for id, status in verdicts.items():
        sure = Level.HIGH if status is Standing.CONFIRMED else None
        proof = Evidence(_cut(statement), turn)
        state, touched = register.revised(state, id, status=status, confidence=sure, evidence=proof)
        changes.append(Change("update_assumption", settled(id, status, touched)))
    return bool(verdicts), state


def _verdicts(statement: str, state: InterviewState) -> dict[str, Standing]:
    """What a sentence says of assumptions that it names; each clause by itself."""
    there = {each.id for each in state.assumptions}
    found: dict[str, Standing] = {}
    for clause in re.split(r"[;,] |\bbut\b|\band (?=A\d)", statement):
        match = _VERDICT.search(clause)
        if match is None or (id := f"A{match['id']}") not in there or _UNDECIDED.search(clause):
            continue
        holds = bool(match["holds"]) != bool(_DENIED.search(match[0]))
        found[id] = Standing.CONFIRMED if holds else Standing.REFUTED
    if not found and _FACT.search(statement) and (named := _NAMED.search(statement)) and f"A{named[1]}" in there:
        found[f"A{named[1]}"] = Standing.CONFIRMED
    return found


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
    state: InterviewState, mode: Mode, pending: Sequence[AskedQuestion], changes: list[Change]
) -> InterviewState:
    """“I do not know” is an answer, too: what was asked and is not answered becomes an open question."""
    waiting = {each.text for each in pending}
    for question in [each for each in state.asked if each.text in waiting and not each.answered]:
        state = replace(
            state, asked=tuple(replace(one, answered=UNKNOWN) if one is question else one for one in state.asked)
        )
        path = f"{question.probe}.{question.criterion}"
        if not skeleton.is_met(state, path):
            state = skeleton.met(state, path, UNKNOWN)
            changes.append(Change("open_question", question.text))
    return state


def _criterion(
    statement: str,
    state: InterviewState,
    mode: Mode,
    pending: Sequence[AskedQuestion],
    place: int,
    ears: Ears,
    before: str = "",
) -> str:
    """Which criterion a sentence speaks to: by its signals, by the words of what was asked, else by its place.

    People answer what they are asked: as long as something of it is not answered, it takes more than a word or two to
    show that they speak of something else.
    """
    waiting = any(not skeleton.is_met(state, f"{each.probe}.{each.criterion}") for each in pending)
    terms, words = ears.stems(statement), set(ears.subject(statement))
    label = ears.stems(named_by[1]) if (named_by := _LABEL.match(statement)) else ()
    asked = {f"{each.probe}.{each.criterion}": each for each in pending}
    best, most = "", 0.0
    for path in mode.paths:
        criterion = mode.criterion(path)
        assert criterion is not None
        section = mode.section(criterion.section)
        named = (criterion.key, section.heading if section else "")
        score = float(strength(criterion.signals, terms, ears.stems))
        names = set().union(*(ears.subject(each.replace("-", " ")) for each in named))
        score += 2.5 * len(names & set(terms))
        if label and (names & set(label) or strength(criterion.signals, label, ears.stems)):
            score += _LABELLED
        score += _GOES_ON * (path == before)
        if path in asked:
            score += 0.9 * len(words & set(ears.subject(asked[path].text))) + (0.9 if score else 0.0)
        elif asked:
            near = path.startswith(f"{state.probe}.")
            score -= (_STRAYS if waiting else _ADDS) / (2 if near else 1)
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
    statement: str,
    path: str,
    state: InterviewState,
    mode: Mode,
    turn: int,
    ears: Ears,
    changes: list[Change],
    *,
    asked: bool,
    guess: bool = False,
) -> InterviewState:
    """A point of the document; an assumption too, where somebody is not sure or foretells something."""
    criterion = mode.criterion(path)
    if criterion is None:
        return state
    text = capitalised(_cut(_THAT_ASSUMES.sub("", statement)))
    confidence = Level.LOW if guess else confidence_of(statement)
    assumption = ""
    if confidence is not None:
        state, assumption = _assumed(statement, text, path, criterion, confidence, state, turn, ears, changes)
    try:
        state, point = skeleton.pointed(
            state, mode, criterion.section, text, turn, subject=ears.subject, criterion=path, assumption=assumption
        )
    except RagforgeError as problem:
        changes.append(Change("fill_section", f"{problem.message}; {problem.hint}", refused=True))
    else:
        if point is not None:
            changes.append(Change("fill_section", f"{criterion.section}: {text}"))
    needed = _SETTLES_HERE if path.startswith(f"{state.probe or next(iter(mode.probes))}.") else _SETTLES
    if not asked and strength(criterion.signals, ears.stems(statement), ears.stems) < needed:
        return state  # said in passing: it is still worth a question
    answered = tuple(
        replace(each, answered=turn) if f"{each.probe}.{each.criterion}" == path and not each.answered else each
        for each in state.asked
    )
    return skeleton.met(replace(state, asked=answered), path, turn)


def _assumed(
    statement: str,
    text: str,
    path: str,
    criterion: Criterion,
    confidence: Level,
    state: InterviewState,
    turn: int,
    ears: Ears,
    changes: list[Change],
) -> tuple[InterviewState, str]:
    """The assumption that a statement makes, if it makes one; what was said just before may rest on it."""
    if same := register.alike(state, text, ears.subject):
        return state, same.id
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
        just_now = [each.id for each in state.assumptions[:-1] if each.turn == turn]
        if _THAT_ASSUMES.match(statement) and just_now:
            known = register.find(state, just_now[-1]).depends_on
            state, _ = register.revised(state, just_now[-1], depends_on=[*known, new.id])
            changes.append(Change("update_assumption", f"{just_now[-1]} depends on {new.id}"))
    except RagforgeError as problem:
        changes.append(Change("register_assumption", problem.message, refused=True))
        return state, ""
    rests = f", depends on {', '.join(new.depends_on)}" if new.depends_on else ""
    sure = f"confidence {new.confidence}, impact {new.impact}{rests}"
    changes.append(Change("register_assumption", f"{new.id}: {new.statement} ({sure})"))
    return state, new.id


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


def due(probe: Probe, message: str, ears: Ears) -> int:
    """How much a message calls for a probe."""
    return signalled(probe.signals, ears.stems(message), ears.stems)
