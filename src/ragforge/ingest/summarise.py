"""One paragraph per file, by extraction: the sentences that share most words with the whole."""

from __future__ import annotations

import re
from collections import Counter

from ragforge.domain.documents import Parsed, TextKind

_SAMPLE = 6_000
_LIMIT = 400
_SENTENCE = re.compile(r"[^.!?。！？\n]{20,400}[.!?。！？](?=\s|$)")
_WORD = re.compile(r"\w{4,}")
_MARKUP = re.compile(
    r"```.*?```|^---\n.*?\n---|\{\{.*?\}\}|<[^>]*>|!?\[([^\]]*)\]\([^)]*\)|[#*_`|>]+", re.DOTALL | re.MULTILINE
)


def summarise(parsed: Parsed) -> str:
    """Up to three telling sentences in their order; the beginning of the text where there are none."""
    sample = _MARKUP.sub(lambda match: match.group(1) or " ", parsed.text[:_SAMPLE])
    if parsed.kind is not TextKind.PROSE:
        return _beginning(sample)
    sentences = [match.group().strip() for match in _SENTENCE.finditer(sample)][:40]
    if not sentences:
        return _beginning(sample)
    words = [set(_WORD.findall(sentence.lower())) for sentence in sentences]
    weight = Counter(word for found in words for word in found)
    scores = [
        sum(weight[word] - 1 for word in found) / (len(found) + 4) - 0.02 * place for place, found in enumerate(words)
    ]
    best = sorted(range(len(sentences)), key=lambda place: -scores[place])
    chosen: list[int] = []
    length = 0
    for place in best:
        if length + len(sentences[place]) <= _LIMIT and len(chosen) < 3:
            chosen.append(place)
            length += len(sentences[place])
    return " ".join(sentences[place] for place in sorted(chosen)) or _beginning(sample)


def _beginning(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LIMIT else flat[:_LIMIT].rsplit(" ", 1)[0] + " …"
