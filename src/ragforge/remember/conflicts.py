"""What was said in the chat and is overruled: FILES > newer > older.

A sentence that repeats an injected file is left out, since the file is there. One that says otherwise than a file, or
than a newer turn, is left out and shown with what counts instead. Two sentences contradict each other when they are
about the same thing by their words and differ in the figure, the name, the switch or a negation. All other sentences
stay: the rules look for plain cases, and a file has more authority than the chat anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragforge.domain.conversation import Conflict, Episode, Turn
from ragforge.domain.prompts import InjectedFile
from ragforge.remember.claims import FIGURE, Claim, claims_of, claims_of_file
from ragforge.remember.words import ANSWERED, ASKED, Count, Words, sentences, shortened

_REPEATED = 0.7
"""Share of a sentence's shingles that a file must hold for the sentence to be a repetition."""
_WIDTH = 8
"""Characters of a shingle."""
_SHORTEST = 24
"""Characters without spaces from which a sentence can be a repetition."""
_SHOWN = 200
_GAP = "…"


def suppress(
    episodes: Sequence[Episode], recent: Sequence[Turn], files: Sequence[InjectedFile], *, words: Words, count: Count
) -> tuple[tuple[Episode, ...], tuple[Conflict, ...]]:
    """The episodes without the sentences that are overruled, and those; an episode with no answer left goes.

    The recent turns are newer than any episode; `suppress_recent` holds them against the files.
    """
    said = {episode.id: [_Said(sentence, words) for sentence in _statements(episode.text)] for episode in episodes}
    above = _Files(files, [claim for each in said.values() for sentence in each for claim in sentence.claims], words)
    newer = [
        _Newer(f"turn {turn.number}", tuple(claims_of(sentences(f"{turn.question}\n{turn.answer}"), words)))
        for turn in sorted(recent, key=lambda turn: -turn.number)
    ]
    kept: list[Episode] = []
    conflicts: list[Conflict] = []
    for episode in sorted(episodes, key=lambda each: (-each.last, each.id)):
        left: list[Claim] = []
        text = episode.text
        for sentence in said[episode.id]:
            if found := above.overrules(sentence) or _overruled_by(newer, sentence, above):
                conflicts.append(replace(found, id=episode.id, number=episode.last))
                text = text.replace(sentence.text, _GAP, 1)
            else:
                left += sentence.claims
        newer.append(_Newer(_named(episode), tuple(left)))
        if text == episode.text:
            kept.append(episode)
        elif _answers(text):
            kept.append(replace(episode, text=text, tokens=count(text)))
    return (
        tuple(sorted(kept, key=lambda each: (each.first, each.id))),
        tuple(sorted(conflicts, key=lambda each: each.number)),
    )


def suppress_recent(
    recent: Sequence[Turn], files: Sequence[InjectedFile], *, words: Words
) -> tuple[tuple[Turn, ...], tuple[Conflict, ...]]:
    """The recent turns, where a sentence of an answer that contradicts a file gives way to a word on that.

    Nothing else of them changes, and what only repeats a file stays: they are kept as they are.
    """
    said = [[_Said(sentence, words) for sentence in sentences(turn.answer)] for turn in recent]
    above = _Files(files, [claim for each in said for sentence in each for claim in sentence.claims], words)
    kept: list[Turn] = []
    conflicts: list[Conflict] = []
    for turn, answered in zip(recent, said, strict=True):
        answer = turn.answer
        for sentence in answered:
            if found := above.contradicts(sentence):
                conflicts.append(replace(found, id=turn.id, number=turn.number))
                answer = answer.replace(sentence.text, f"({found.against} says otherwise)", 1)
        kept.append(turn if answer == turn.answer else replace(turn, answer=answer))
    return tuple(kept), tuple(conflicts)


class _Said:
    """A sentence of the chat and what it claims."""

    def __init__(self, text: str, words: Words) -> None:
        self.text = text
        self.claims = tuple(claims_of([text], words))


class _Files:
    """The injected files, which overrule the chat together: what agrees with one of them stands."""

    def __init__(self, files: Sequence[InjectedFile], chat: Sequence[Claim], words: Words) -> None:
        about = frozenset(stem for claim in chat for stem in claim.subject)
        self._files = [file for file in files if file.text]
        self._claims = [
            (file.name, claim) for file in self._files for claim in claims_of_file(file.name, file.text, about, words)
        ]
        self._texts = [
            (file.name, _shingles(_plain(file.text)), set(FIGURE.findall(file.text))) for file in self._files
        ]

    def overrules(self, sentence: _Said) -> Conflict | None:
        """What a file says otherwise, or says already."""
        return self.contradicts(sentence) or self._repeats(sentence.text)

    def contradicts(self, sentence: _Said) -> Conflict | None:
        for claim in sentence.claims:
            same = self.on(claim)
            if same and all(claim.contradicts(other) for _, other in same):
                name, other = same[0]
                return Conflict("", 0, sentence.text, name, shortened(other.text, _SHOWN))
        return None

    def on(self, claim: Claim) -> list[tuple[str, Claim]]:
        """What the files say of the same thing."""
        return [(name, other) for name, other in self._claims if claim.compares_with(other)]

    def _repeats(self, sentence: str) -> Conflict | None:
        plain = _plain(sentence)
        if len(plain) < _SHORTEST or sentence.endswith("?"):
            return None
        own, figures = _shingles(plain), set(FIGURE.findall(sentence))
        for name, shingles, known in self._texts:
            if figures <= known and len(own & shingles) >= _REPEATED * len(own):
                return Conflict("", 0, sentence, name, sentence, repeats=True)
        return None


@dataclass(frozen=True, slots=True)
class _Newer:
    """What was said later."""

    name: str
    claims: tuple[Claim, ...]


def _overruled_by(newer: Sequence[_Newer], sentence: _Said, above: _Files) -> Conflict | None:
    """What the newest of them that speaks of the same says otherwise, unless a file speaks of it too."""
    for claim in sentence.claims:
        for turn in newer if not above.on(claim) else ():
            same = [other for other in turn.claims if claim.compares_with(other)]
            if not same:
                continue
            if all(claim.contradicts(other) for other in same):
                return Conflict("", 0, sentence.text, turn.name, shortened(same[-1].text, _SHOWN))
            break
    return None


def _statements(text: str) -> list[str]:
    """The sentences of an episode, without the words that name its parts."""
    said = (sentence.removeprefix(ASKED).removeprefix(ANSWERED).strip() for sentence in sentences(text))
    return [sentence for sentence in said if sentence]


def _answers(text: str) -> bool:
    """Whether anything is left after what was asked, or after a rollup's title."""
    _, found, answer = text.partition(f"\n{ANSWERED}")
    return any(sign.isalnum() for sign in (answer if found else text.partition("\n")[2]))


def _named(episode: Episode) -> str:
    return f"turn {episode.last}" if episode.first == episode.last else f"turns {episode.first} to {episode.last}"


def _plain(text: str) -> str:
    return "".join(text.lower().split())


def _shingles(plain: str) -> frozenset[str]:
    return frozenset(plain[at : at + _WIDTH] for at in range(max(0, len(plain) - _WIDTH + 1)))
