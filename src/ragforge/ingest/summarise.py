"""One paragraph per file, by extraction: the sentences that share most words with the rest."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from ragforge.domain.documents import Parsed, TextKind
from ragforge.domain.sentences import sentence_starts

_SAMPLE = 2_500
_SENTENCES = 20
_LIMIT = 400
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\n]*\)")
_MARKUP = re.compile(r"<[^<>\n]*>|\{\{[^{}\n]*\}\}|[*`]+|(?<!\w)_+|_+(?!\w)|^#+ |^\|?[ :|-]{3,}\|?$", re.MULTILINE)
_GAP = re.compile(r"\n{2,}")
_WORD = re.compile(r"\w{4,}")
_NOT_PROSE = ("#", "|", ">", "- ", "* ", "1.", "    ")


def summarise(parsed: Parsed) -> str:
    """Up to three telling sentences in their order; the beginning of the text where there are none."""
    sample = _FENCE.sub("", _FRONT_MATTER.sub("", parsed.text[:_SAMPLE]))
    plain = _MARKUP.sub("", _LINK.sub(r"\1", sample))
    if parsed.kind is TextKind.CODE:
        return _beginning(sample)
    if parsed.kind is not TextKind.PROSE:
        return _beginning(plain.replace("|", " ")) or _beginning(parsed.text)
    prose = "\n".join(line for line in plain.split("\n") if not line.startswith(_NOT_PROSE))
    sentences = [" ".join(piece.split()) for block in _GAP.split(prose) for piece in _sentences(block)]
    sentences = [s for s in sentences if 30 <= len(s) <= _LIMIT and s[-1] in ".!?。！？"][:_SENTENCES]
    return " ".join(_telling(sentences)) or _beginning(plain) or _beginning(parsed.text)


def _sentences(text: str) -> list[str]:
    borders = [0, *sentence_starts(text, 0, len(text)), len(text)]
    return [text[start:end] for start, end in pairwise(borders)]


def _telling(sentences: list[str]) -> list[str]:
    """The first sentence, which mostly says what the text is about, and the two that share most with the others."""
    words = [set(_WORD.findall(sentence.lower())) for sentence in sentences]
    weight = Counter(word for found in words for word in found)
    scores = [sum(weight[word] - 1 for word in found) / (len(found) + 4) for found in words]
    chosen: list[int] = []
    length = 0
    for place in sorted(range(len(sentences)), key=lambda place: (place > 0, -scores[place])):
        if length + len(sentences[place]) <= _LIMIT and len(chosen) < 3:
            chosen.append(place)
            length += len(sentences[place])
    return [sentences[place] for place in sorted(chosen)]


def _beginning(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LIMIT else flat[:_LIMIT].rsplit(" ", 1)[0] + " …"
