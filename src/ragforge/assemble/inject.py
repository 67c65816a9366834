"""A1: files that the prompt names, into the prompt; the same prompt and files give the same text, always.

    prompt -> names in it -> the documents they mean (one, several, none, switched off) -> FULL, PACK or NARROWS

Only code and configuration are injected; a named document of another kind narrows retrieval to it, unless the user
locks the prompt to exactly the files it names.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ragforge.assemble.english import FUNCTION_WORDS, words_of
from ragforge.domain.library import Document, Status
from ragforge.domain.prompts import InjectedFile, Injection


class Outcome(StrEnum):
    """What a name in the prompt came to."""

    ONE = "one"
    AMBIGUOUS = "ambiguous"
    MISSING = "missing"
    OFF = "off"
    FILTERED = "filtered"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Named:
    """A file name in the prompt and the documents it may mean."""

    named_as: str
    outcome: Outcome
    documents: tuple[Document, ...] = ()
    line: int | None = None
    """The line that was named with it: `app.py:42`."""

    def told(self) -> str:
        """What a person should know of it; empty where it is clear."""
        paths = ", ".join(_path(document) for document in self.documents)
        match self.outcome:
            case Outcome.AMBIGUOUS:
                return f"“{self.named_as}” may mean {paths}: write more of the path; none is injected"
            case Outcome.MISSING:
                return f"no file “{self.named_as}” in this project"
            case Outcome.OFF:
                return f"{paths} is switched off: switch it on to use it"
            case Outcome.FILTERED:
                return f"{paths} is named, but the filters of the question leave it out"
            case Outcome.UNREADABLE:
                return f"{paths} could not be read when it was added, so it has no text"
        return ""


@dataclass(frozen=True, slots=True)
class Injected:
    """❖ FILES, those among them that only narrow retrieval, and what to tell."""

    files: tuple[InjectedFile, ...] = ()
    told: tuple[str, ...] = ()


# -- names in a prompt

_LONGEST_PROMPT = 200_000
_LONGEST_NAME = 200
_MOST_NAMES = 50
_QUOTED = re.compile(
    r"`([^`\n]{1,200})`|\"([^\"\n]{1,200})\"|“([^”\n]{1,200})”|„([^“”\n]{1,200})[“”]|«([^»\n]{1,200})»"
    r"|(?<!\w)'([^'\n]{1,200})'(?!\w)"
)
_BARE = re.compile(r"(?<![\w./\\@~-])(?:\.{0,2}[/\\]|~/)?\.?[\w@+-][\w@+./\\-]{0,198}(?::\d{1,7})?")
_LINE = re.compile(r":(\d{1,7})(?:[:-]\d{1,7})?$")
_ADDRESS = re.compile(r"(?<!\w)[A-Za-z]{1,10}://\S*|\bwww\.\S+|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,60}\.[\w.]{2,60}")
_PRODUCT = re.compile(r"[A-Z0-9]\w*\.(?:js|py|rs|go|io|ts)")
"""Node.js and the like: the name of a thing, not of a file, unless there is such a file."""

_CONFIG = words_of(
    "toml ini cfg conf config properties env yaml yml json json5 jsonc editorconfig gitignore gitattributes",
    "dockerignore lock plist service npmrc tf tfvars hcl xml",
)
_CODE = words_of(
    "py pyi pyx js mjs cjs jsx ts tsx mts cts java kt kts scala groovy gradle clj c h cc cpp cxx hh hpp cs fs vb m mm",
    "swift go rs zig nim rb php pl pm lua r jl hs ml mli erl ex exs el lisp scm sql sh bash zsh fish ps1 bat cmd css",
    "scss sass less vue svelte graphql gql proto thrift cmake mk nix cu glsl tcl awk diff patch html htm ipynb",
)
_OTHER = words_of("md markdown txt rst pdf docx pptx xlsx csv tsv rtf odt epub eml vtt srt log tex")
_NAMES = words_of(
    "makefile dockerfile jenkinsfile vagrantfile procfile gemfile rakefile justfile cmakelists.txt .env .gitignore"
)


def named_files(prompt: str, documents: Sequence[Document]) -> list[Named]:
    """The files a prompt names, in the order of naming, each once."""
    shelf = _Shelf(documents)
    found: dict[tuple[str, ...] | str, Named] = {}
    for mention in sorted(_mentions(prompt[:_LONGEST_PROMPT], shelf)):
        named = _judged(mention, shelf)
        if named is not None:
            found.setdefault(tuple(document.id for document in named.documents) or named.named_as.lower(), named)
        if len(found) == _MOST_NAMES:
            break
    return list(found.values())


class _Mention(NamedTuple):
    start: int
    text: str
    quoted: bool


class _Shelf:
    """The documents by their names and by the ends of their paths."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.by_end: dict[str, list[tuple[str, Document]]] = {}
        self.by_stem: dict[str, list[Document]] = {}
        self.spaced: list[str] = []
        for document in documents:
            for path in dict.fromkeys((_plain(document.name), *(_plain(source.key) for source in document.sources))):
                self.by_end.setdefault(path.rpartition("/")[2].lower(), []).append((path, document))
            name = _plain(document.name)
            self.by_stem.setdefault(name.rpartition(".")[0].lower() or name.lower(), []).append(document)
            if " " in name:
                self.spaced.append(name)

    def matching(self, name: str) -> tuple[Document, ...]:
        """The documents that a name or the end of a path means: as it is written, else in any case of its letters."""
        candidates = self.by_end.get(name.rpartition("/")[2].lower(), [])
        low = name.lower()
        tiers = (
            [document for path, document in candidates if path == name and "/" in name],
            [document for path, document in candidates if f"/{path}".endswith(f"/{name}")],
            [document for path, document in candidates if f"/{path.lower()}".endswith(f"/{low}")],
        )
        found = {document.id: document for document in next(filter(None, tiers), [])}
        return tuple(sorted(found.values(), key=_path))


def _mentions(prompt: str, shelf: _Shelf) -> Iterable[_Mention]:
    """Everything that could be a file's name, in the order of the prompt, each wording once."""
    low = prompt.lower()
    spaced = [_Mention(at, name, True) for name in shelf.spaced if (at := _place(low, name.lower())) is not None]
    open_text = prompt
    for mention in spaced:
        end = mention.start + len(mention.text)
        open_text = open_text[: mention.start] + " " * len(mention.text) + open_text[end:]
    quoted = [
        _Mention(match.start(), next(filter(None, match.groups())).strip(), True) for match in _QUOTED.finditer(prompt)
    ]
    open_text = _ADDRESS.sub(lambda match: " " * len(match[0]), open_text)
    bare = [_Mention(match.start(), match[0], False) for match in _BARE.finditer(open_text)]
    return {
        (mention.text, mention.quoted): mention for mention in sorted([*quoted, *bare, *spaced], reverse=True)
    }.values()


def _place(prompt: str, name: str) -> int | None:
    """Where a name with spaces in it stands in the prompt, as whole words."""
    at = prompt.find(name)
    around = prompt[max(0, at - 1) : at] + prompt[at + len(name) : at + len(name) + 1]
    return None if at < 0 or any(letter.isalnum() for letter in around) else at


def _judged(mention: _Mention, shelf: _Shelf) -> Named | None:
    line = _LINE.search(mention.text)
    name = _plain(mention.text[: line.start()] if line else mention.text).rstrip(".,;:!?)")
    ending = _ending(name)
    if not name or len(name) > _LONGEST_NAME:
        return None
    special = name.rpartition("/")[2].lower() in _NAMES
    found = shelf.matching(name) if ending or mention.quoted or special else ()
    if not found and mention.quoted and not ending:
        found = tuple(sorted(shelf.by_stem.get(name.lower(), ()), key=_path))
    if not found:
        return Named(name, Outcome.MISSING) if _is_surely_a_file(name, ending, mention.quoted) else None
    number = int(line[1]) if line else None
    if len(found) > 1:
        return Named(name, Outcome.AMBIGUOUS, found, number)
    outcome = (
        Outcome.OFF if not found[0].enabled else Outcome.ONE if found[0].status is Status.READY else Outcome.UNREADABLE
    )
    return Named(name, outcome, found, number)


def _is_surely_a_file(name: str, ending: str, quoted: bool) -> bool:
    """Whether to tell that it does not exist: a name of a known kind, and not that of a product or a sentence's end."""
    if ending not in _CODE | _CONFIG | _OTHER or " " in name:
        return False
    stem = name.rpartition("/")[2].rpartition(".")[0]
    return quoted or "/" in name or (len(stem) > 1 and not _PRODUCT.fullmatch(name))


def _ending(name: str) -> str:
    stem, _, ending = name.rpartition("/")[2].rpartition(".")
    return ending.lower() if stem else ""


def _plain(path: str) -> str:
    text = unicodedata.normalize("NFC", path).strip().replace("\\", "/").removeprefix("upload:")
    return re.sub(r"^(?:\./)+", "", text)


def _path(document: Document) -> str:
    return _plain(document.sources[0].key) if document.sources else document.name


# -- into the prompt


def is_code_or_config(document: Document) -> bool:
    """By its ending or its name, or because it was read as code."""
    name = document.name.lower()
    ending = _ending(name)
    return document.mime.startswith("text/x-") or ending in _CODE | _CONFIG or name in _NAMES


def injected(
    prompt: str,
    named: Sequence[Named],
    read: Callable[[Document], str],
    budget: int,
    count: Callable[[str], int],
    *,
    lock: bool = False,
) -> Injected:
    """The named files as they go into the prompt, in at most so many tokens. `lock` injects every kind of file."""
    clear = [one for one in named if one.outcome is Outcome.ONE]
    told = [one.told() for one in named if one.outcome is not Outcome.ONE]
    taken = [one for one in clear if lock or is_code_or_config(one.documents[0])]
    texts = {one.named_as: read(one.documents[0]) for one in taken}
    sizes = {name: count(text) for name, text in texts.items()}
    shares = _shares(list(sizes.values()), budget)
    room = dict(zip(sizes, shares, strict=True))
    files: list[InjectedFile] = []
    for one in clear:
        document, name = one.documents[0], one.named_as
        if name not in texts:
            files.append(InjectedFile(document.id, document.name, Injection.NARROWS, "", 0, name))
        elif sizes[name] <= room[name]:
            files.append(InjectedFile(document.id, document.name, Injection.FULL, texts[name], sizes[name], name))
        else:
            text, left_out = packed(texts[name], prompt, room[name], count, line=one.line)
            if text:
                files.append(
                    InjectedFile(document.id, document.name, Injection.PACK, text, count(text), name, left_out)
                )
            else:
                told.append(f"no room for {document.name}: {sizes[name]} tokens, {room[name]} left")
    return Injected(tuple(files), tuple(told))


def _shares(sizes: Sequence[int], budget: int) -> list[int]:
    """Tokens for each: what the small ones do not need goes to the large ones, evenly."""
    shares = [0] * len(sizes)
    left, waiting = max(0, budget), sorted(range(len(sizes)), key=lambda place: (sizes[place], place))
    for done, place in enumerate(waiting):
        shares[place] = min(sizes[place], left // (len(waiting) - done))
        left -= shares[place]
    return shares


# -- a pack

_SIGNATURE = re.compile(
    r"\s{0,8}(?:@\w|(?:export |public |private |protected |static |abstract |async |pub |final |override )*"
    r"(?:def|class|function|func|fn|struct|enum|interface|trait|impl|type|module|namespace|record|object|sub|proc|package)\b"
    r"|\[[^\]\n]{1,80}\]\s*$|CREATE |ALTER )",
    re.IGNORECASE,
)
_KEY = re.compile(r"[\"']?[\w.-]{1,60}[\"']?\s*[:=]")
_HEAD_LINES = 12
_AROUND = 2
_AROUND_NAMED = 12
_LONGEST_LINE = 300
_NAME = re.compile(r"\w+")
_SHORTEST_WORD = 3
_BODY = 12
"""Lines after a signature that the prompt names."""
_SMALL = FUNCTION_WORDS | {"file", "code", "line"}


def packed(
    text: str, prompt: str, budget: int, count: Callable[[str], int], *, line: int | None = None
) -> tuple[str, str]:
    """A file in fewer tokens: its head, signatures, keys, what shares words with the prompt; and what is left out."""
    lines = text.splitlines()
    chosen: set[int] = set()
    spent = 0
    mark = count(_gap(len(lines))) + 1
    for place in _by_worth(lines, prompt, line):
        beside = (place - 1 in chosen) + (place + 1 in chosen)
        price = count(_cut(lines[place])) + 1 + mark * (1 - beside)
        if place not in chosen and spent + price <= budget - mark:
            chosen.add(place)
            spent += price
        if spent >= budget - mark:
            break
    while chosen and count(made := _joined(lines, chosen)) > budget:
        chosen = set(sorted(chosen)[: -max(1, len(chosen) // 10)])
    return (made, _left_out(lines, chosen)) if chosen else ("", "")


def _by_worth(lines: Sequence[str], prompt: str, line: int | None) -> Iterable[int]:
    """The places of lines, the most telling first, each once."""
    end = len(lines)
    order: dict[int, None] = {}
    if line is not None and line <= end:
        order.update(dict.fromkeys(range(max(0, line - 1 - _AROUND_NAMED), min(end, line + _AROUND_NAMED))))
    order.update(dict.fromkeys(range(min(_HEAD_LINES, end))))
    shared = _shared(lines, prompt)
    signatures = [place for place, text in enumerate(lines) if _SIGNATURE.match(text)]
    for place in sorted(set(signatures) & set(shared), key=lambda place: (-shared[place], place)):
        body = next((each for each in signatures if each > place), end)
        order.update(dict.fromkeys(range(place, min(body, place + _BODY, end))))
    best = sorted(shared, key=lambda place: (-shared[place], place))
    for place in best[: max(20, end // 20)]:
        order.update(dict.fromkeys(range(max(0, place - _AROUND), min(end, place + _AROUND + 1))))
    order.update(dict.fromkeys(signatures))
    order.update(dict.fromkeys(place for place, text in enumerate(lines) if _KEY.match(text)))
    order.update(dict.fromkeys(best))
    order.update(dict.fromkeys(range(end)))
    return order


def _shared(lines: Sequence[str], prompt: str) -> dict[int, float]:
    """The lines that share words or names with the prompt, and how much that tells: what is rare tells more."""
    wanted = _words(prompt[:_LONGEST_PROMPT]) - _SMALL
    found = {place: words for place, text in enumerate(lines) if (words := wanted & _words(text))}
    often = Counter(word for words in found.values() for word in words)
    return {place: sum(1 / often[word] for word in words) for place, words in found.items()}


def _words(text: str) -> set[str]:
    """Words and whole names, and the parts of names that are made of several."""
    names = [name.lower() for name in _NAME.findall(text)]
    return {part for name in names for part in (name, *name.split("_")) if len(part) >= _SHORTEST_WORD}


def _joined(lines: Sequence[str], chosen: set[int]) -> str:
    """The chosen lines in their order, with a mark wherever some are missing."""
    parts: list[str] = []
    before = -1
    for place in [*sorted(chosen), len(lines)]:
        if place - before > 1:
            parts.append(_gap(place - before - 1))
        if place < len(lines):
            parts.append(_cut(lines[place]))
        before = place
    return "\n".join(parts)


def _gap(missing: int) -> str:
    return f"… ({missing} line{'s' * (missing != 1)} left out)"


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + "…"


def _left_out(lines: Sequence[str], chosen: set[int]) -> str:
    cut = sum(len(lines[place]) > _LONGEST_LINE for place in chosen)
    missing = f"{len(lines) - len(chosen)} of {len(lines)} lines"
    return missing + (f", and the ends of {cut} long ones" if cut else "")
