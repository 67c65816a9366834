"""Follow-up questions made to stand alone, by rules.

    the turns so far -> what they speak of, the most likely first
    the question     -> what it leaves to them: pronouns, "the first one", "What about X?", "Why?", "the symptoms"

Nothing is changed unless a rule is sure of both; what is changed keeps every other word of the question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ragforge.assemble.english import (
    ADJECTIVES,
    BASE_VERBS,
    FUNCTION_WORDS,
    GENERIC,
    OF_SOMETHING,
    VERBS,
    WORD,
    is_english,
    is_plural,
    singular,
    words_of,
)
from ragforge.domain.conversation import Turn

_LONGEST = 400
"""Characters: who writes more says what they mean."""
_LONGEST_ANSWER = 20_000
_TURNS = 8
"""How far back a reference reaches."""
_FAINT = ADJECTIVES - {"black", "blue", "red", "green", "white"} | {
    "basic", "certain", "current", "environmental", "final", "key", "notable", "side", "various",
}  # fmt: skip
"""Words before a noun that hardly tell it from others."""


class StandAlone(NamedTuple):
    """A question as it can be searched for, and why it is so."""

    text: str
    reason: str
    rewritten: bool = False


class Phrase(NamedTuple):
    """Words that name something, and where they stand."""

    text: str
    start: int
    end: int
    article: str = ""

    @property
    def head(self) -> str:
        return re.split(r" (?:of|with) ", self.text)[0].split()[-1]

    @property
    def whole(self) -> str:
        return f"{self.article} {self.text}".lstrip()

    @property
    def plural(self) -> bool:
        return is_plural(self.head)

    @property
    def proper(self) -> bool:
        return any(word[0].isupper() or word[0] == "`" for word in self.text.split())

    @property
    def code(self) -> bool:
        """Whether it is called by letters and digits: the X200, not the 2nd."""
        return bool(re.search(r"[^\W\d_][\w-]*\d", self.text))

    @property
    def name(self) -> bool:
        """Whether it ends with a name: France or the AquaFlow X200, not the June meeting."""
        return self.head[0].isupper() or self.code

    @property
    def person(self) -> bool:
        words = self.text.split()
        return not self.article and all(word.istitle() and word.isalpha() for word in words) and len(words) < 4

    @property
    def telling(self) -> bool:
        """Whether it can be what a conversation is about: not the symptoms, but the withdrawal symptoms."""
        if singular(self.head.lower()) in GENERIC:
            return False
        return self.proper or not self.of_something or not self.plain

    @property
    def of_something(self) -> bool:
        return singular(self.head.lower()) in OF_SOMETHING

    @property
    def plain(self) -> bool:
        return all(word.lower() in _FAINT for word in self.text.split()[:-1])


class Topics(NamedTuple):
    """What a conversation speaks of, the most likely first."""

    phrases: tuple[Phrase, ...]
    firm: bool
    """Whether the last turn was surely about the first of them."""


def stand_alone(question: str, turns: Sequence[Turn]) -> StandAlone:
    """The question as it can be understood without the turns before it."""
    asked = question.strip()
    if not turns:
        return StandAlone(question, "it opens the conversation")
    if agrees(asked) and (offer := offered(turns[-1].answer)):
        return StandAlone(offer, f"“{asked}” accepts “{offer}”", True)
    if len(asked) > _LONGEST:
        return StandAlone(question, "it is long enough to stand alone")
    if not is_english(asked):
        return StandAlone(question, "the rules know English only")
    topics, last = topics_of(turns), _said(turns[-1])
    for rule in (_bare_question, _side_of, _what_about):
        if (whole := rule(asked, last)) and _differs(whole.text, asked):
            return whole
    return _sentences_resolved(question, asked, topics, turns[-1].answer)


# -- yes to an offer

_AGREED = re.compile(
    r"(?:(?:yes|yeah|yep|yup|sure|ok|okay|please|please do|of course|definitely|absolutely|go ahead|go on|"
    r"do it|do that|continue|sounds good|that would be (?:great|nice|good)|i do|i would|why not|"
    r"ja|gerne?|bitte|klar|oui|d['’]accord|volontiers|s['’]il (?:te|vous) pla[iî]t|s[ií]|claro|vale|por favor|"
    r"sì|certo|sim|tak|да|はい|是|好)[\s,.!]*){1,4}",
    re.I,
)
_CITATION = re.compile(r"(?:\s*\[\d+\])+\s*$")
_OFFER = re.compile(
    r"(?:.*?[,:–—-] )?(?:shall i|should i|may i|can i|could i|would you like (?:me )?to|"
    r"do you want (?:me )?to|want me to|"
    r"would you like|(?:do|did) you mean|are you (?:asking about|looking for)|"
    r"let me know if you(?:['’]d| would)? (?:like|want)(?: me)?(?: to)?) (?P<what>[^?]+?)[?.! ]*",
    re.I,
)


def agrees(message: str) -> bool:
    """Whether a message only says yes."""
    return bool(_AGREED.fullmatch(message.strip()))


def asked_at_end(answer: str) -> str:
    """The question or offer an answer ends with; empty if it ends with none."""
    text = _CITATION.sub("", answer.strip()[-600:]).rstrip(" *_\"'”)")
    end = re.search(r"[^.!?？。\n]*[.!?？。]?$", text)
    sentence = end[0].strip() if end else ""
    return sentence if sentence.endswith(("?", "？")) or re.match(r"let me know if", sentence, re.I) else ""


def offered(answer: str) -> str:
    """What the answer offers at its end: the words of the offer, or its question where they cannot be told apart."""
    question = asked_at_end(answer)
    match = _OFFER.fullmatch(question)
    return match["what"].strip() if match else question


def _said(turn: Turn) -> str:
    return (turn.standalone or turn.question).strip()[:_LONGEST]


def _differs(one: str, other: str) -> bool:
    return WORD.findall(one.lower()) != WORD.findall(other.lower())


# -- what a text speaks of

_BREAKS = FUNCTION_WORDS | {"tell", "describe", "explain"}
_ARTICLES = frozenset({"the", "a", "an", "my", "your", "our"})
_NO_NOUN_AFTER = words_of("i you we they he she how")
_BEFORE_NOUNS = _ARTICLES | words_of("is are was were about of with for in on from by any some")
_ABOUT = re.compile(
    r"(?:tell (?:me )?(?:more )?about|describe|explain|define|(?:learn|know|hear) (?:more )?about) (?=\S)", re.I
)
_IS = re.compile(r"(?:what|who)(?:['’]s| is| are| was| were) (?=\S)", re.I)
_SUPPORTS = re.compile(
    r"(?:do|does|did|can|could) [^?]{1,60}? (?:support|provide|include|offer|work with) (?=\S)", re.I
)
_OF = re.compile(r" of (?:the |an? )?", re.I)
_OPENING = re.compile(r"(?:what|which|how many|how much)(?: \w+(?: or| and))? $", re.I)


def phrases(text: str) -> list[Phrase]:
    """Runs of words that name something, in order."""
    found: list[Phrase] = []
    run: list[re.Match[str]] = []
    article = before = ""
    for match in WORD.finditer(text):
        low = match[0].lower()
        if run and text[run[-1].end() : match.start()].strip(" "):
            found += _phrase(text, run, article)
            run, article = [], ""
        named = _named(match)
        joins = low == "of" and run and run[-1][0][0].isupper() and re.match(r" [A-Z]", text[match.end() :])
        if not joins and (
            (before in _NO_NOUN_AFTER and not named)
            or _breaks(low, named, inside=bool(run), noun_follows=bool(article) or before in _BEFORE_NOUNS)
        ):
            found += _phrase(text, run, article)
            run, article = [], low if low in _ARTICLES else ""
        else:
            run.append(match)
        before = low
    return found + _phrase(text, run, article)


def _named(word: re.Match[str]) -> bool:
    return (word[0][0].isupper() or word[0][0] == "`") and word.start() > 0


def _breaks(low: str, named: bool, *, inside: bool, noun_follows: bool) -> bool:
    """Whether a word ends the phrase before it and starts none."""
    if named and (inside or low not in _BREAKS) and low not in {"i", "is", "s"}:
        return False
    if low in _BREAKS or (low.endswith("ly") and len(low) > 4):
        return True
    if low.endswith("ing"):
        return False
    if low.endswith("ed") and len(low) > 4:
        return inside or not noun_follows
    if inside and low.endswith("s"):
        return False
    return low in VERBS and (inside or not (noun_follows and low in BASE_VERBS))


def _phrase(text: str, run: list[re.Match[str]], article: str) -> list[Phrase]:
    while len(run) > 1 and run[-1][0].lower() in ADJECTIVES | {"of"}:
        run = run[:-1]
    while len(run) > 1 and not article and run[0][0].endswith("ing") and run[0][0].lower() in VERBS:
        run = run[1:]
    if not run or all(word[0].lower() in ADJECTIVES | VERBS and not _named(word) for word in run):
        return []
    start, end = run[0].start(), run[-1].end()
    return [Phrase(text[start:end], start, end, article)]


def topics_in(text: str) -> tuple[list[Phrase], list[Phrase]]:
    """What one question speaks of, the most likely first; and what it hardly does."""
    telling = [phrase for phrase in phrases(text) if phrase.telling]
    about = _ABOUT.search(text) or _IS.match(text) or _SUPPORTS.match(text)
    after = [phrase for phrase in telling if about and phrase.start >= about.end()]
    faint = [
        phrase
        for phrase in telling
        if _OPENING.search(text[: phrase.start]) or phrase.text.split()[0].lower() in _FAINT
    ]
    if len(after) > 1 and text[after[0].end : after[1].start] == " with ":
        both = text[after[0].start : after[1].end]
        after = [after[0]._replace(text=both, end=after[1].end)]
        telling = [*after, *(phrase for phrase in telling if phrase.start >= after[0].end)]
    if len(after) > 1 and after[1].name and _OF.fullmatch(text[after[0].end : after[1].start]):
        after = after[1:]  # the warranty of the X200: that speaks of the X200
    faint = [phrase for phrase in faint if phrase not in after[:1]]
    return [*after[:1], *(phrase for phrase in telling if phrase not in faint and phrase not in after[:1])], faint


def topics_of(turns: Sequence[Turn]) -> Topics:
    """What the conversation speaks of, the most likely first: a topic that is kept up stays before new ones."""
    topics: list[Phrase] = []
    firm = False
    for turn in turns[-_TURNS:]:
        said = _said(turn)
        if not is_english(said):
            continue
        new, faint = topics_in(said)
        kept = [topic for topic in topics if turn.standalone and _added(topic, turn)]
        firm = bool(kept) or bool(new and (_ABOUT.search(said) or _IS.match(said)))
        topics = _distinct([*kept, *new, *topics, *faint])
    return Topics(tuple(topics), firm)


def _added(topic: Phrase, turn: Turn) -> bool:
    """Whether rewriting brought the topic into the question."""
    stem = singular(topic.text.lower())
    return stem in turn.standalone.lower() and stem not in turn.question.lower()


def _distinct(found: Iterable[Phrase]) -> list[Phrase]:
    first: dict[str, Phrase] = {}
    for phrase in found:
        first.setdefault(singular(phrase.text.lower()), phrase)
    return list(first.values())


# -- questions that are only a part of one

_BARE = re.compile(
    r"(?:and |but |so )?(why|how|when|where|how (?:much|many|long|often|far|so)|why not|since when)\W*", re.I
)
_ASKED = re.compile(
    r"(?:(?:how|when|where|why) )?"
    r"(?P<rest>(?:is|are|was|were|do|does|did|can|could|will|would|should|has|have|must|may)\b)",
    re.I,
)
_ABOUT_WHAT = re.compile(
    r"(?P<lead>(?:\w+[.!,?] +)?)(?:(?:and|but|or|so|okay|ok)[, ]+)?"
    r"(?:(?P<about>(?:what|how) about)|and|or|(?:the )?same (?:for|with)) "
    r"(?P<what>[^.!?]+?)(?:, please)?[ ?.!]*",
    re.I,
)
_JOINED = re.compile(r"^(?:and|but|or|so) (?=(?:the|what|which|who|when|where|why|how|is|are|do|does|can)\b)", re.I)
_SEVERAL = re.compile(r"\b(?:between|and|or|versus|vs)\b", re.I)
_PREPOSITION = re.compile(r"(of|in|on|at|for|from|with|without|during|after|before|under|by) (?=\w)", re.I)
_OF_AT_END = re.compile(r".*\bof (?P<thing>[^?.!]+?)[ ?.!]*$", re.I | re.S)
_OF_ITS_KIND = re.compile(r"(?:when|where|who|how \w+)(?:['’]s| is| are| was| were) ", re.I)
"""How a question begins that suits only things of one kind: `When is the meeting?` cannot be asked of a budget."""


def _bare_question(asked: str, last: str) -> StandAlone | None:
    """`Is throat cancer treatable?` `Why?` -> `Why is throat cancer treatable?`"""
    match = _BARE.fullmatch(asked)
    asked_before = _ASKED.match(last)
    if not match or not asked_before:
        return None
    rest = last[asked_before.start("rest") :]
    return StandAlone(
        f"{match[1].capitalize()} {rest[0].lower()}{rest[1:]}", f"“{match[1]}” asks on after “{last}”", True
    )


def _side_of(asked: str, last: str) -> StandAlone | None:
    """`What is the price of the X200?` `And the sound level?` -> `And the sound level of the X200?`"""
    match, of = _asks_on(asked, last), _OF_AT_END.match(last)
    side, thing = match and _only_phrase(match["what"]), of and _only_phrase(of["thing"])
    if not match or not side or not thing or not thing.name:
        return None
    if side.proper or side.code or _BARE_BEST.fullmatch(side.text) or (side.telling and side.article != "the"):
        return None
    at = match.end("what")
    return StandAlone(f"{asked[:at]} of {thing.whole}{asked[at:]}", f"it goes on about “{thing.text}”", True)


def _what_about(asked: str, last: str) -> StandAlone | None:
    """`What is the largest mammal in the world?` `What about in the UK?` -> the question again, of the other."""
    match, before = _asks_on(asked, last), _JOINED.sub("", last)
    if not match:
        return None
    preposition = _PREPOSITION.match(match["what"])
    again = _with_other_place(before, preposition[1], match["what"]) if preposition else None
    other = _only_phrase(match["what"][preposition.end() if preposition else 0 :])
    if not again and other and (other.code or not preposition):
        again = _with_other_thing(before, other, turns_away=bool(match["about"]))
    if not again:
        return None
    again = match["lead"] + again[0].upper() + again[1:]
    return StandAlone(again, f"“{asked}” asks “{last}” of something else", True)


def _asks_on(asked: str, last: str) -> re.Match[str] | None:
    """`And X?` or `What about X?`, if both questions say what they speak of."""
    match = _ABOUT_WHAT.fullmatch(asked)
    return match if match and is_english(last) and not _REFERS.search(f"{last} {match['what']}") else None


def _only_phrase(what: str) -> Phrase | None:
    """The phrase that these words are, if they are nothing but one."""
    found = phrases(what)
    return found[0] if len(found) == 1 and found[0].whole == what else None


def _with_other_place(last: str, preposition: str, what: str) -> str | None:
    body, end = _body(last)
    place = re.search(rf"\b{preposition} (?:the |an? )?(?:(?!{preposition}\b)[\w-]+ ?){{1,3}}$", body, re.I)
    return f"{body[: place.start()]}{what}{end}" if place else None


def _with_other_thing(last: str, other: Phrase, *, turns_away: bool) -> str | None:
    """The last question with the phrase replaced that the other one surely stands for; `turns_away`: it may be none."""
    if not other.telling or _SEVERAL.search(last):
        return None
    named = [phrase for phrase in phrases(last) if phrase.telling]
    head = singular(other.head.lower())
    same = [phrase for phrase in named if singular(phrase.head.lower()) == head or (phrase.code and other.code)]
    if not same and other.proper:
        same = [phrase for phrase in named if phrase.proper]
    elif not same and not _is_of_another_kind(last, named, other, turns_away=turns_away):
        same = named
    if len(same) != 1 or same[0].text.lower() == other.text.lower():
        return None
    start = same[0].start - (len(same[0].article) + 1 if same[0].article else 0)
    return last[:start] + other.whole + last[same[0].end :]


def _is_of_another_kind(last: str, named: Sequence[Phrase], other: Phrase, *, turns_away: bool) -> bool:
    """Whether the last question may make no sense of the other thing."""
    if _BARE_BEST.fullmatch(other.text):
        return False
    suits = _OF_ITS_KIND.match(last)
    return (turns_away and other.article == "the") or (
        suits is not None and [_body(last[suits.end() :])[0]] == [phrase.whole for phrase in named]
    )


def _body(text: str) -> tuple[str, str]:
    body = text.rstrip(" ?.!")
    return body, text[len(body) :].strip() or "?"


# -- words that stand for something said before

_REFERS = re.compile(r"\b(?:it|its|they|them|their|he|him|his|she|her|this|that|these|those|ones?)\b", re.I)
_PRONOUN = re.compile(
    r"\b(?:(?P<poss>its|their|his|her(?= (?!(?:in|on|at|to|for|from|as|and|or|with)\b)\w))|"
    r"(?P<is>(?:it|they|he|she)['’](?:s|re)\b)|(?P<plain>it|they|them|he|him|she|her)|"
    r"(?P<that>this|that)(?=[ ?.!]*$| (?:in|with|for|every|without|using|on)\b))\b(?!['’])",
    re.I,
)
_AFTER = re.compile(r"\b(?:for|with|use|of|to|in|about) $", re.I)
_JUDGED = (
    "true|possible|necessary|important|better|worth|safe|ok|okay|bad|good|legal|hard|easy|common|normal|best|useful|wise|"
    "advisable|difficult|dangerous|clear|likely|recommended|required|enough|time"
)
_EXPLETIVE = re.compile(
    rf"\bit(?:['’]s| is| was| be)? (?:\w+ )?(?:{_JUDGED}) (?:to|that|when|if|for [\w ]+ to)\b"
    r"|\bit (?:cost|take|mean)s?\b.* to\b|\bit (?:rain|snow|seem|sound|look)s?\b|\bworth it\b"
    r"|\bdo it\b|\bit turns out\b"
    r"|\b(?:make|find|get|keep)s? it \w+ (?:to|for)\b",
    re.I,
)
_CLAUSE = re.compile(
    r"[,;:]|\b(?:and|but|or|if|when|because|since|while|so|that|which|who|before|after|until|than)\b", re.I
)
_BEST = r"\w{2,}est|first|last|second|third|next|best|worst"
_BARE_BEST = re.compile(_BEST, re.I)
_SUPERLATIVE = re.compile(
    rf"\bthe (?:(?:{_BEST})|most \w+|least \w+)"
    r"(?= (?:in|on|at|ever|to|and|that|of all|from|for|invented|built|made|known)\b|[?.!]*$)",
    re.I,
)
_LEADS = ADJECTIVES | {"first", "last", "second", "third", "next"}
_ONE = re.compile(
    r"\b(?:(?:the|an?|any|some|which|that|this|these|those|good|new|popular|other|another|"
    rf"{_BEST}|\w+er) (?:\w+ )?)"
    r"(?P<one>ones?)\b(?! of\b)(?!['’])",
    re.I,
)
_ONE_ALONE = re.compile(r"\b(?P<verb>\w+) (?P<one>one)\b(?=[ ?.!]*$| (?:in|for|with|from|to|on)\b)", re.I)
_DEFINITE = re.compile(r"\b(the|this|that|these|those) (?P<noun>[a-z]+)(?P<after>(?: [a-z]+)?)", re.I)
_KIND = re.compile(r"\b(?:what|which|how many) (?:kind|type|sort)s?(?= (?!of\b)\w)", re.I)
_ROLE = re.compile(r"\brole of (?:the )?[\w-]+(?: [\w-]+)?$", re.I)
_FOR = re.compile(r" (?:in|for|on) (?:the )?[\w-]+(?: [\w-]+)?$")
_COMPARE = re.compile(r"\bhow (?:do|does|did) .+ compare$", re.I)
_THERE = re.compile(
    r"\b(?:(?P<moving>go|get|travel|fly|drive|move)|do|see|eat|stay|live|work|buy|visit|speak|grow|happen\w*) "
    r"(?P<there>there)(?=[ ?.!]*$| (?:in|by|from|with)\b)",
    re.I,
)
_ITEM = re.compile(r"^ *(?:\d{1,2}[.)]|[-*•]) +(.+)$", re.M)
_ORDINALS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "last": -1}
_NTH = re.compile(
    r"\bthe (first|second|third|fourth|last)(?: (?:one|option|point|item|step|way|method))?"
    r"(?=[ ?.!,]*$| (?:work|mean|do|in|on|for|and)\b)",
    re.I,
)
_SENTENCE = re.compile(r"[^.?!]+(?:[.?!]+(?!\s|$)[^.?!]+)*[.?!]*\s*")


class _Edit(NamedTuple):
    start: int
    end: int
    new: str
    reason: str


def _sentences_resolved(question: str, asked: str, topics: Topics, answer: str) -> StandAlone:
    edits: list[_Edit] = []
    for match in _SENTENCE.finditer(asked):
        sentence, at = match[0].rstrip(), match.start()
        edits += [
            edit._replace(start=edit.start + at, end=edit.end + at) for edit in _resolved(sentence, topics, answer)
        ]
        if any(phrase.telling for phrase in phrases(sentence)):
            break  # what follows speaks of that
    if not edits:
        unsure = _REFERS.search(asked)
        return StandAlone(question, "what it refers to is not sure" if unsure else "it says itself what it is about")
    text = asked
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.new + text[edit.end :]
    return StandAlone(text, "; ".join(dict.fromkeys(edit.reason for edit in edits)), True)


def _resolved(sentence: str, topics: Topics, answer: str) -> list[_Edit]:
    if edit := _listed(sentence, answer):
        return [edit]
    if not topics.phrases:
        return []
    edits = _definite(sentence, topics.phrases)
    edits += _ones(sentence, topics.phrases)
    edits += _pronouns(sentence, topics)
    edits += _there(sentence, topics.phrases[0])
    return edits or _open_ended(sentence, topics.phrases[0])


def _listed(sentence: str, answer: str) -> _Edit | None:
    """`the second one` of a list in the answer before."""
    match = _NTH.search(sentence)
    items = _ITEM.findall(answer[:_LONGEST_ANSWER]) if match else []
    if not match or len(items) < 2 or (place := _ORDINALS[match[1].lower()]) >= len(items):
        return None
    item = re.split(r"\s+[–—-]\s+|: |\. ", items[place].replace("**", ""))[0].strip(" .:;")
    return _Edit(match.start(), match.end(), item, f"“{match[0]}” is “{item}”") if 0 < len(item) <= 80 else None


def _definite(sentence: str, topics: Sequence[Phrase]) -> list[_Edit]:
    """`the experiment` -> `the Stanford Experiment`."""
    for match in _DEFINITE.finditer(sentence):
        noun, after = match["noun"].lower(), match["after"].strip().lower()
        if (
            noun in FUNCTION_WORDS | OF_SOMETHING
            or singular(noun) in OF_SOMETHING
            or after == "of"
            or (after and after not in FUNCTION_WORDS | VERBS | ADJECTIVES)
        ):
            continue
        meant = next((topic for topic in topics if singular(topic.head.lower()) == singular(noun)), None)
        if meant and len(meant.text.split()) > 1 and meant.text.lower() not in sentence.lower():
            end = match.end("noun")
            said = sentence[match.start() : end]
            return [_Edit(match.start(), end, _the(meant), f"“{said}” is “{meant.text}”")]
    return []


def _ones(sentence: str, topics: Sequence[Phrase]) -> list[_Edit]:
    """`the largest one` -> `the largest mammal`; `the largest in the world` likewise."""
    topic = next((topic for topic in topics if not topic.person), None)
    if not topic:
        return []
    if match := _ONE.search(sentence):
        noun = _kind(topic, many=match["one"].lower() == "ones")
        return [_Edit(match.start("one"), match.end("one"), noun, f"“{match[0]}” is of “{topic.text}”")]
    if (match := _ONE_ALONE.search(sentence)) and match["verb"].lower() in VERBS and not topic.proper:
        noun = _kind(topic, many=False)
        article = "an" if noun[0].lower() in "aeio" else "a"
        return [_Edit(match.start("one"), match.end("one"), f"{article} {noun}", f"“one” is of “{topic.text}”")]
    if (match := _SUPERLATIVE.search(sentence)) and not any(p.telling for p in phrases(sentence[: match.start()])):
        noun = f"of {_the(topic)}" if topic.proper else _kind(topic, many=False)
        return [_Edit(match.end(), match.end(), " " + noun, f"“{match[0]}” is of “{topic.text}”")]
    if match := _KIND.search(sentence):
        noun = f" of {_kind(topic, many=topic.plural)}"
        return [_Edit(match.end(), match.end(), noun, f"“{match[0]}” is of “{topic.text}”")]
    return []


def _pronouns(sentence: str, topics: Topics) -> list[_Edit]:
    edits: list[_Edit] = []
    done: dict[str, Phrase] = {}
    for match in _PRONOUN.finditer(sentence):
        word = match[0].lower()
        group = "it" if word.startswith(("it", "th")) and word[:3] != "the" else "they" if word[0] == "t" else "he"
        if (
            group in done
            or (group == "it" and _is_expletive(sentence, match))
            or (match["that"] and not _AFTER.search(sentence[: match.start()]))
        ):
            continue
        topic = _meant(group, topics, set(done.values()))
        if topic is None or topic.text.lower() in sentence.lower() or _said_before(sentence, match, group == "they"):
            continue
        done[group] = topic
        edits.append(_Edit(match.start(), match.end(), _in_place(topic, match), f"“{match[0]}” is “{topic.text}”"))
    return edits


def _there(sentence: str, topic: Phrase) -> list[_Edit]:
    """`How do I get there?` -> `How do I get to Boise?`"""
    match = _THERE.search(sentence)
    if not match or not topic.proper or topic.text.lower() in sentence.lower():
        return []
    way = "to" if match["moving"] else "in"
    return [_Edit(match.start("there"), match.end("there"), f"{way} {_the(topic)}", f"“there” is “{topic.text}”")]


def _is_expletive(sentence: str, pronoun: re.Match[str]) -> bool:
    return any(match.start() <= pronoun.start() < match.end() for match in _EXPLETIVE.finditer(sentence))


def _said_before(sentence: str, pronoun: re.Match[str], many: bool) -> bool:
    """Whether the sentence itself names, before the pronoun, what it may stand for."""
    before = sentence[: pronoun.start()]
    candidates = [phrase for phrase in phrases(before) if phrase.telling and phrase.plural == many]
    if pronoun["poss"]:
        return bool(candidates)
    borders = [border.start() for border in _CLAUSE.finditer(before)]
    return any(phrase.end <= border for phrase in candidates for border in borders)


def _meant(group: str, topics: Topics, taken: set[Phrase]) -> Phrase | None:
    near = [topic for topic in topics.phrases[:6] if topic not in taken]
    if group == "he":
        return next((topic for topic in near if topic.person), None)
    if topics.firm and near[:1] == [topics.phrases[0]]:
        return near[0]
    return next((topic for topic in near if topic.plural == (group == "they")), None)


def _in_place(topic: Phrase, pronoun: re.Match[str]) -> str:
    many = pronoun[0].lower().startswith("the")
    name = _kind(topic, many=True) if many and not topic.proper and not topic.plural else _the(topic)
    if pronoun["poss"]:
        name += "'" if name.endswith("s") else "'s"
    elif pronoun["is"]:
        name += " are" if topic.plural else " is"
    return name[0].upper() + name[1:] if pronoun.start() == 0 else name


def _open_ended(sentence: str, topic: Phrase) -> list[_Edit]:
    """`What are the symptoms?` -> `What are the symptoms of anemia?`"""
    body, _ = _body(sentence)
    if singular(topic.text.lower()) in body.lower():
        return []
    named = phrases(body)
    reason = f"it goes on about “{topic.text}”"
    if _ROLE.search(body):
        return [_Edit(len(body), len(body), f" in {_the(topic)}", reason)]
    if _COMPARE.search(body):
        return [_Edit(len(body), len(body), f" to {_the(topic)}", reason)]
    place = _FOR.search(body)
    end = place.start() if place else len(body)
    last = next((phrase for phrase in named if phrase.end == end), None)
    if last is None or " of " in body or any(phrase.telling or phrase.proper for phrase in named if phrase.start < end):
        return []
    return [_Edit(end, end, f" of {_the(topic)}", reason)] if last.of_something and last.plain else []


def _the(topic: Phrase) -> str:
    article = "the" if topic.article in ("my", "your", "our") else topic.article
    return f"{article} {topic.text}".lstrip()


def _kind(topic: Phrase, *, many: bool) -> str:
    """What the topic is one of, or some of."""
    words = topic.text.split()
    while len(words) > 1 and (words[0].lower() in _LEADS or words[0].lower().endswith("est")):
        words = words[1:]
    last = words[-1] if is_plural(words[-1]) == many else words[-1] + "s" if many else singular(words[-1])
    return " ".join([*words[:-1], last])
