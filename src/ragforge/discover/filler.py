"""Messages with nothing to go on, offers that are taken up, and questions that are asked back."""

from __future__ import annotations

import re

from ragforge.discover.ears import Ears, statements

_LONGEST = 80
_BETWEEN = r"(?:[\s,.!…;:-]+(?:and |but |so |then )?|$)"
_ASSENT = (
    r"yes|yeah|yep|yup|ok(?:ay)?|sure|right|fine|alright|all right|(?:all )?good|great|thanks?(?: you)?|i see|got it|"
    r"understood|noted|agreed|exactly|please|no|nope|nah|(?:that|this|it)(?:['’]s| is) (?:right|correct|fine|ok|true|"
    r"all|it)|"
    r"(?:(?:that|this|it) )?(?:makes|made) sense|sounds good|looks good|no(?:thing)? (?:more|"
    r"else)(?: to add)?(?: (?:here|for now))?|"
    r"hm+|um+|lol|ha(?:ha)+|it depends|(?:hard|difficult) to say|let me think|same as (?:i said )?before|well|maybe|"
    r"perhaps|"
    r"nice one"
)
_ONWARD = (
    r"(?:(?:please|just|let['’]?s|let us|we can|you can|can we|now) )*(?:continue|go on|go ahead|proceed|move on|"
    r"moving on|"
    r"carry on|keep going|next(?: question| one)?|skip(?: (?:this|that|it)(?: one)?| the question)?|pass|weiter|"
    r"mach weiter|"
    r"continúa|continuez?|avanti)(?: please)?"
)
_FILLS = re.compile(rf"(?:(?:{_ASSENT}|{_ONWARD}){_BETWEEN}){{1,5}}", re.IGNORECASE)
_MOVES_ON = re.compile(rf"(?:(?:(?:{_ASSENT}){_BETWEEN}){{0,4}})(?:{_ONWARD}){_BETWEEN}", re.IGNORECASE)
_YES_NO = re.compile(
    r"^(?:(?:and|or|so|then|also|otherwise|before that|first|now)[, ]+)*(?:shall|should|would|do|does|did|is|are|was|"
    r"were|can|could|will|may|have|has|had|am|isn['’]t|don['’]t|doesn['’]t|want me|ready|okay if|ok if|right)\b",
    re.IGNORECASE,
)
_OFFERS = re.compile(
    r"^(?:(?:and|or|so|then|now)[, ]+)*(?:shall (?:i|we)|should (?:i|we)|would you like|do you want|want me|may i|"
    r"can i|"
    r"could i|ready|okay if|ok if)\b",
    re.IGNORECASE,
)
_LEADS = re.compile(r"^(?:[\s>*_#–-]|\d{1,2}[.)])*")
_NO = re.compile(r"\s*(?:no|nope|nah|not|never|later|don['’]?t|rather not|wait|hold)\b", re.IGNORECASE)
_ASKS_AGAIN = re.compile(
    r"(?:sorry,? |hm+,? )?(?:what (?:do|did) you mean(?: by (?:that|this|it))?|what was the question(?: again)?|"
    r"(?:can|could|would) you (?:please )?(?:repeat|rephrase|explain)(?: (?:that|this|it|the question|"
    r"what you mean(?: by "
    r"(?:that|this|it))?))?(?: please)?|(?:please )?(?:repeat|rephrase|explain) (?:that|this|it|the question)|"
    r"(?:please )?say "
    r"(?:that|it) again|i (?:don['’]?t|do not|didn['’]?t|did not) (?:understand|get)(?: (?:that|this|it|the question|"
    r"what you "
    r"mean))?|why (?:do|are|would) you (?:ask|asking|want to know)(?: (?:that|this|me that))?)[?.! ]*",
    re.IGNORECASE,
)


def is_filler(message: str, last_answer: str, ears: Ears) -> bool:
    """Whether there is nothing to go on: “yes”, “continue”, “that makes sense, move on”.

    After an offer the same words are an answer, and a yes after a question that takes one. An interviewer asks all the
    time; “yes” to “Who decides?” is none.
    """
    text = message.strip()
    if not re.search(r"\w", text) or asks_again(text):
        return True
    if len(text) > _LONGEST:
        return False
    if _MOVES_ON.fullmatch(text):
        return not _last_asked(last_answer, _OFFERS)
    return bool(ears.casual(text) or _FILLS.fullmatch(text)) and not can_be_agreed_to(last_answer)


def asks_again(message: str) -> bool:
    """Whether a person wants to hear once more what they were asked, or why."""
    return bool(_ASKS_AGAIN.fullmatch(message.strip()))


def can_be_agreed_to(answer: str) -> bool:
    """Whether the last thing asked is an offer, or takes a yes or no."""
    return _last_asked(answer, _YES_NO)


def _last_asked(answer: str, form: re.Pattern[str]) -> bool:
    asked = [piece for piece in statements(answer) if piece.rstrip('*_ )"”').endswith("?")]
    return bool(asked) and bool(form.match(_bare(asked[-1])))


def _bare(sentence: str) -> str:
    """Without the marks of lists and emphasis; of “So far so good: shall I go on?”, what is asked."""
    text = _LEADS.sub("", sentence)
    return re.split(r"(?<=[:;–—])\s+", text)[-1]


def agrees(message: str, ears: Ears) -> bool:
    """Whether it takes an offer up and says nothing else."""
    text = message.strip()
    return not _NO.match(text) and (ears.casual(text) or bool(_FILLS.fullmatch(text)))
