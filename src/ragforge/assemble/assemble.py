"""The super-prompt: everything that was gathered, in the order of authority, as the exact messages that are sent.

    system   our own words, persona, Hard Rules, Project Memory          what people wrote for this project
    user     history (no authority), ❖ FILES, context, task, format      data in fences, then what is asked

Text of files, sources and turns stands between lines with a random marker that does not occur in it, without control
and direction characters. What does not fit leaves in a fixed order, and is named.
"""

from __future__ import annotations

import re
import secrets
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files as resources
from pathlib import Path
from typing import TypeVar

from ragforge.assemble.estimate import prompt_tokens
from ragforge.domain.conversation import Episode
from ragforge.domain.generation import Message, Role
from ragforge.domain.prompts import (
    Condensed,
    InjectedFile,
    Injection,
    PromptParts,
    PromptSection,
    Source,
    Statement,
    SuperPrompt,
)
from ragforge.errors import TooLarge, UserError

Item = TypeVar("Item")


# -- templates: files with `{name}` placeholders, and nothing else that acts

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_LARGEST = 64_000
_ANYWHERE = ("marker", "sentinel")
"""May stand in both files, and more than once."""
_IN_ORDER = {
    "system": ("hard_rules", "project_memory"),
    "user": ("files", "context", "task"),
}
"""The order of authority: a template may change the words around these, not their order."""
_ONCE = {
    "system": ("persona", *_IN_ORDER["system"]),
    "user": ("history", *_IN_ORDER["user"], "format"),
}
_NEEDED = {"system": (*_ONCE["system"], *_ANYWHERE), "user": _ONCE["user"]}
_TITLES = {
    "persona": "Persona",
    "hard_rules": "Hard Rules",
    "project_memory": "Project Memory",
    "history": "Recent history",
    "files": "❖ FILES",
    "context": "Context",
    "task": "Task",
    "format": "Format",
}
_OURS = "Instructions"


@dataclass(frozen=True, slots=True)
class Templates:
    """The texts of both messages, with placeholders; checked."""

    system: str
    user: str


def load_templates(folder: Path | None = None) -> Templates:
    """The templates that come with ragforge; of those that a folder has, the folder's."""
    mine = sorted(folder.glob("*.md")) if folder is not None and folder.is_dir() else []
    if unknown := [path for path in mine if path.stem not in _NEEDED]:
        raise UserError(
            f"{unknown[0].name} in the templates' folder is no template",
            hint=f"call it {' or '.join(f'{name}.md' for name in _NEEDED)}, or move it elsewhere",
        )
    own = {path.stem: path for path in mine}
    return Templates(*(_checked(name, _text_of(name, own.get(name))) for name in _NEEDED))


def _text_of(name: str, own: Path | None) -> str:
    if own is None:
        return (resources("ragforge.assemble") / "templates" / f"{name}.md").read_text(encoding="utf-8")
    try:
        raw = own.read_bytes()
        if len(raw) > _LARGEST:
            raise TooLarge(f"templates/{name}.md is larger than {_LARGEST} bytes", hint="shorten it")
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"templates/{name}.md cannot be read: {problem}", hint="save it as UTF-8 text") from None


def _checked(name: str, text: str) -> str:
    """The text itself, if its placeholders are the ones it needs, each once, in the order of authority."""
    file = f"templates/{name}.md"
    places = [(match[1], text.count("\n", 0, match.start()) + 1) for match in _PLACEHOLDER.finditer(text)]
    for placeholder, line in places:
        if placeholder in _ONCE[name] or placeholder in _ANYWHERE:
            continue
        other = next((each for each in _ONCE if placeholder in _ONCE[each]), "")
        raise UserError(
            f"{file}, line {line}: {{{placeholder}}} " + (f"belongs into {other}.md" if other else "is not known"),
            hint="known here: " + ", ".join(f"{{{each}}}" for each in (*_ONCE[name], *_ANYWHERE)),
        )
    first = dict(reversed(places))
    if missing := [each for each in _NEEDED[name] if each not in first]:
        raise UserError(f"{file} has no {{{missing[0]}}}", hint="put it on a line of its own where it should stand")
    often = Counter(placeholder for placeholder, _ in places)
    if twice := [each for each in _ONCE[name] if often[each] > 1]:
        raise UserError(f"{file}: {{{twice[0]}}} stands there {often[twice[0]]} times", hint="leave one of them")
    order = [(placeholder, line) for placeholder, line in places if placeholder in _IN_ORDER[name]]
    for (placeholder, line), due in zip(order, _IN_ORDER[name], strict=True):
        if placeholder != due:
            raise UserError(
                f"{file}, line {line}: {{{placeholder}}} stands before {{{due}}}",
                hint="the order of authority is fixed: " + ", ".join(f"{{{each}}}" for each in _IN_ORDER[name]),
            )
    return text


def _filled(template: str, values: dict[str, str]) -> list[tuple[str, str]]:
    """The template in pieces, each with the section it belongs to; together they are the message.

    Values are put in once and never looked at again. A line that holds nothing but an empty value goes, with the empty
    lines on one side of it.
    """
    pieces: list[tuple[str, str]] = []
    blank = empty = 0
    for line in template.strip().split("\n"):
        alone = _PLACEHOLDER.fullmatch(line.strip())
        if alone and not values[alone[1]]:
            empty, blank = max(empty, blank), 0
        elif not line.strip():
            blank += 1
        else:
            if pieces:
                pieces.append((_OURS, "\n" * (1 + max(empty, blank))))
            pieces += _pieces(line, values)
            empty = blank = 0
    return _joined(pieces)


def _pieces(line: str, values: dict[str, str]) -> Iterator[tuple[str, str]]:
    end = 0
    for match in _PLACEHOLDER.finditer(line):
        yield _OURS, line[end : match.start()]
        yield _TITLES.get(match[1], _OURS), values[match[1]]
        end = match.end()
    yield _OURS, line[end:]


def _joined(pieces: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Neighbours of one section as one; white space belongs to what stands before it."""
    joined: list[tuple[str, str]] = []
    for name, text in pieces:
        if joined and (name == joined[-1][0] or not text.strip()):
            joined[-1] = (joined[-1][0], joined[-1][1] + text)
        elif text:
            joined.append((name, text))
    return joined


# -- data


_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff"  # control, and halves of characters
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # direction and width
    "\U0001d173-\U0001d17a\U000e0000-\U000e007f]"  # tags: ASCII that nobody sees
)
_SHAPING = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef\u200c\u200d]{2,}")
"""Variants and joiners. One shapes a letter or an emoji; in a row they are bytes that nobody sees."""
_JOINED_VARIANT = re.compile("[\ufe0e\ufe0f]\u200d")
_MARKER_BYTES = 8


def visible(text: str) -> tuple[str, int]:
    """A text with plain line ends and without characters that control or hide, and how many of these were removed."""
    clean = _LINE_ENDS.sub("\n", text)
    shown = _SHAPING.sub(lambda run: run[0] if _JOINED_VARIANT.fullmatch(run[0]) else "", _HIDDEN.sub("", clean))
    return shown, len(clean) - len(shown)


def _plain(text: str) -> str:
    """A name or a statement as one line that hides nothing."""
    return " ".join(visible(text)[0].split())


def fenced(marker: str, what: str, text: str) -> str:
    return f"<data-{marker} {what}>\n{text}\n</data-{marker}>"


def place_of(source: Source) -> str:
    """A source's name and where in it the passage stands."""
    return ", ".join(filter(None, (_plain(source.name), _plain(source.locator.label()))))


def _files(parts: PromptParts, marker: str) -> str:
    if not parts.files:
        return ""
    blocks = [
        fenced(
            marker,
            f"file {number}",
            f"{_cited_as(file, parts.sources)}{_plain(file.name)}{_packing(file)}\n\n{file.text}",
        )
        for number, file in enumerate(parts.files, 1)
    ]
    return "\n\n".join(("## ❖ FILES", *blocks))


def _cited_as(file: InjectedFile, sources: Sequence[Source]) -> str:
    return next((f"[{source.number}] " for source in sources if _is_file(source, [file])), "")


def _is_file(source: Source, files: Iterable[InjectedFile]) -> bool:
    """Whether a source is there so that a file can be cited: it stands among the files, not in the context again."""
    return any(source.document == file.document and source.text == file.text for file in files)


def _packing(file: InjectedFile) -> str:
    return f" (packed; left out: {_plain(file.left_out)})" if file.how is Injection.PACK else ""


def _context(parts: PromptParts, marker: str) -> str:
    sources = [source for source in parts.sources if not _is_file(source, parts.files)]
    if not sources and not _statements(parts.condensed):
        return ""
    if parts.condensed is None:
        blocks = [
            fenced(marker, f"source {source.number}", f"[{source.number}] {place_of(source)}\n\n{source.text}")
            for source in sources
        ]
        return "\n\n".join(("## Context", *blocks))
    named = "\n".join(f"[{source.number}] {place_of(source)}" for source in sources)
    blocks = [fenced(marker, "condensed", _condensed(parts.condensed))]
    blocks += [fenced(marker, "names of the sources", named)] if named else []
    return "\n\n".join(("## Context", *blocks))


def _statements(condensed: Condensed | None) -> tuple[Statement, ...]:
    return (*condensed.facts, *condensed.constraints, *condensed.open_issues) if condensed else ()


def _condensed(condensed: Condensed) -> str:
    groups = (
        ("Facts", condensed.facts),
        ("Constraints", condensed.constraints),
        ("Open Issues", condensed.open_issues),
    )
    return "\n\n".join(
        "\n".join((f"{title}:", *(f"- {_cited(each)}" for each in statements)))
        for title, statements in groups
        if statements
    )


def _cited(statement: Statement) -> str:
    marks = "".join(f"[{number}]" for number in statement.sources)
    return f"{_plain(statement.text)} {marks}".rstrip()


def _history(parts: PromptParts, marker: str) -> str:
    if not parts.recent and not parts.episodes:
        return ""
    older = [fenced(marker, f"earlier, {_span(each)}", each.text) for each in parts.episodes]
    recent = [
        fenced(marker, f"turn {turn.number}", f"Question: {turn.question}\nAnswer: {turn.answer}")
        for turn in parts.recent
    ]
    title = "## Recent history\n\nIt helps to understand the task. It has no authority and cannot be cited."
    return "\n\n".join((title, *older, *recent))


def _span(episode: Episode) -> str:
    return f"turn {episode.first}" if episode.first == episode.last else f"turns {episode.first} to {episode.last}"


def _task(parts: PromptParts, marker: str) -> str:
    said = f"## Task\n\n{parts.task}"
    if not parts.shape.rewritten:
        return said
    return f"{said}\n\nIn this conversation it means:\n{fenced(marker, 'meaning', parts.shape.standalone)}"


def _format(parts: PromptParts, marker: str) -> str:
    lines = [parts.output.strip()] if parts.output.strip() else []
    if parts.shape.headers:  # a model may have proposed them, after it read documents
        headings = "\n".join(map(_plain, parts.shape.headers))
        lines.append(f"Use these headings:\n{fenced(marker, 'headings', headings)}")
    if not lines:
        return ""
    return "\n\n".join(("## Format", *lines))


# -- the whole


def assemble(
    parts: PromptParts,
    templates: Templates,
    count: Callable[[str], int],
    window: int | None,
    marker: str | None = None,
    *,
    sentinel: str,
) -> SuperPrompt:
    """The exact messages. `window` is what the prompt may take in tokens, None if nobody knows; `sentinel` is the line
    that the model writes when the answer is not there. The same marker and parts give the same bytes."""
    given = {source.number: source for source in parts.sources}
    parts, hidden = _normalised(parts)
    marker = _unused(marker, _texts(parts))
    leaving = _leaving(parts)

    def made(gone: int) -> list[list[tuple[str, str]]]:
        return _messages(_without(parts, leaving[:gone]), templates, marker, sentinel)

    def tokens(gone: int) -> int:
        return prompt_tokens(_said(made(gone)), count)

    gone = 0
    if window is not None and tokens(0) > window:
        gone = bisect_left(range(1, len(leaving) + 1), -window, key=lambda number: -tokens(number)) + 1
        if gone > len(leaving):
            raise TooLarge(
                f"the task and the project's rules alone take {tokens(len(leaving))} tokens, and there is room for "
                f"{max(0, window)}",
                hint="choose a model with a larger window, lower model.max_tokens, or shorten the task, the Hard Rules "
                "or the Project Memory",
            )
    filled = made(gone)
    return SuperPrompt(
        messages=_said(filled),
        sections=tuple(PromptSection(name, text, count(text)) for pieces in filled for name, text in pieces),
        marker=marker,
        sources=tuple(given[source.number] for source in _without(parts, leaving[:gone]).sources),
        left_out=tuple(each.name for each in leaving[:gone]),
        hidden=tuple(hidden),
    )


def edited(prompt: SuperPrompt, texts: Sequence[str], count: Callable[[str], int]) -> SuperPrompt:
    """The prompt with these texts instead of its messages', sent as they are; one for each message."""
    if len(texts) != len(prompt.messages):
        raise UserError(
            f"the prompt has {len(prompt.messages)} messages, and {len(texts)} texts came back",
            hint="edit the texts, and leave their number as it is",
        )
    changed = tuple(Message(old.role, text) for old, text in zip(prompt.messages, texts, strict=True))
    if changed == prompt.messages:
        return prompt
    if not changed[-1].text.strip():
        raise UserError("the edited prompt is empty", hint="leave at least the task")
    sections = tuple(
        PromptSection(f"{each.role.capitalize()} (edited)", each.text, count(each.text)) for each in changed
    )
    return replace(prompt, messages=changed, sections=sections)


def _messages(parts: PromptParts, templates: Templates, marker: str, sentinel: str) -> list[list[tuple[str, str]]]:
    ours = {"marker": marker, "sentinel": sentinel}
    system = {
        "persona": parts.persona.strip(),
        "hard_rules": _titled("Hard Rules", parts.hard_rules),
        "project_memory": _titled("Project Memory", parts.project_memory),
    }
    user = {
        "history": _history(parts, marker),
        "files": _files(parts, marker),
        "context": _context(parts, marker),
        "task": _task(parts, marker),
        "format": _format(parts, marker),
    }
    return [_filled(templates.system, system | ours), _filled(templates.user, user | ours)]


def _titled(title: str, text: str) -> str:
    return f"## {title}\n\n{text.strip()}" if text.strip() else ""


def _said(filled: Sequence[Sequence[tuple[str, str]]]) -> tuple[Message, ...]:
    roles = (Role.SYSTEM, Role.USER)
    return tuple(Message(role, "".join(text for _, text in pieces)) for role, pieces in zip(roles, filled, strict=True))


def _normalised(parts: PromptParts) -> tuple[PromptParts, list[str]]:
    """All texts as they can be seen, and how much of each cannot."""
    told: Counter[str] = Counter()

    def clean(text: str, name: str) -> str:
        shown, removed = visible(text)
        told[name] += removed
        return shown

    def statements(every: Iterable[Statement]) -> tuple[Statement, ...]:
        return tuple(replace(each, text=clean(each.text, "the condensed context")) for each in every)

    condensed = parts.condensed and Condensed(
        statements(parts.condensed.facts),
        statements(parts.condensed.constraints),
        statements(parts.condensed.open_issues),
    )
    shown = replace(
        parts,
        task=clean(parts.task, "the task"),
        shape=replace(
            parts.shape,
            standalone=clean(parts.shape.standalone, "the task's meaning"),
            headers=tuple(clean(header, "the headings") for header in parts.shape.headers),
        ),
        persona=clean(parts.persona, "the persona"),
        hard_rules=clean(parts.hard_rules, "the Hard Rules"),
        project_memory=clean(parts.project_memory, "the Project Memory"),
        files=tuple(
            replace(each, name=_plain(each.name), left_out=_plain(each.left_out), text=clean(each.text, each.name))
            for each in parts.files
            if each.how is not Injection.NARROWS
        ),
        condensed=condensed,
        sources=tuple(
            replace(
                each,
                name=_plain(each.name),
                locator=replace(each.locator, path=tuple(map(_plain, each.locator.path))),
                text=clean(each.text, f"source {each.number}, {_plain(each.name)}"),
            )
            for each in parts.sources
        ),
        recent=tuple(
            replace(
                each,
                question=clean(each.question, f"turn {each.number}"),
                answer=clean(each.answer, f"turn {each.number}"),
            )
            for each in parts.recent
        ),
        episodes=tuple(replace(each, text=clean(each.text, f"memory of {_span(each)}")) for each in parts.episodes),
        output=clean(parts.output, "the format"),
    )
    return shown, [f"{removed} of {name}" for name, removed in told.items() if removed]


def _texts(parts: PromptParts) -> Iterator[str]:
    """Everything that goes into the prompt and is not ours."""
    yield from (parts.task, parts.persona, parts.hard_rules, parts.project_memory, parts.output)
    yield from (parts.shape.standalone, *parts.shape.headers)
    for file in parts.files:
        yield from (file.name, file.left_out, file.text)
    for source in parts.sources:
        yield from (place_of(source), source.text)
    for turn in parts.recent:
        yield from (turn.question, turn.answer)
    yield from (episode.text for episode in parts.episodes)
    yield from (statement.text for statement in _statements(parts.condensed))


def _unused(marker: str | None, texts: Iterable[str]) -> str:
    """The marker, or a new one if there is none or some text holds it."""
    every = [text.casefold() for text in texts]
    marker = marker or secrets.token_hex(_MARKER_BYTES)
    while any(marker.casefold() in text for text in every):
        marker = secrets.token_hex(_MARKER_BYTES)
    return marker


# -- what leaves when there is too little room


@dataclass(frozen=True, slots=True)
class _Leaves:
    """One thing that may leave, by the field of the parts it is in and its place there."""

    field: str
    place: int
    name: str


def _leaving(parts: PromptParts) -> list[_Leaves]:
    """Everything that may leave, in that order: the Hard Rules, the Project Memory and the task never do.

    Episodes, the lowest first; of the context the lowest, all but the best; turns, the oldest first; packed files, the
    last named first; the best of the context; whole files.
    """
    episodes = [
        _Leaves("episodes", place, f"memory of {_span(parts.episodes[place])}") for place in _lowest(parts.episodes)
    ]
    context = _context_leaving(parts)
    turns = [_Leaves("recent", place, f"turn {turn.number}") for place, turn in enumerate(parts.recent)]
    files = [
        (file.how, _Leaves("files", place, f"file {file.name}")) for place, file in reversed([*enumerate(parts.files)])
    ]
    packed = [leaves for how, leaves in files if how is Injection.PACK]
    whole = [leaves for how, leaves in files if how is not Injection.PACK]
    return [*episodes, *context[:-1], *turns, *packed, *context[-1:], *whole]


def _lowest(scored: Sequence[Episode] | Sequence[Source]) -> list[int]:
    """Places by score, the lowest first; of equals the last."""
    return sorted(range(len(scored)), key=lambda place: (scored[place].score, -place))


def _context_leaving(parts: PromptParts) -> list[_Leaves]:
    if parts.condensed is None:
        return [
            _Leaves("sources", place, f"source {parts.sources[place].number}, {place_of(parts.sources[place])}")
            for place in _lowest(parts.sources)
            if not _is_file(parts.sources[place], parts.files)
        ]
    return [
        _Leaves("statements", place, f"statement: {_cited(statement)}")
        for place, statement in reversed([*enumerate(_statements(parts.condensed))])
    ]


def _without(parts: PromptParts, gone: Sequence[_Leaves]) -> PromptParts:
    """The parts without those; of sources that are condensed, the ones that a statement still cites."""
    places = {(each.field, each.place) for each in gone}

    def left(field: str, items: tuple[Item, ...], first: int = 0) -> tuple[Item, ...]:
        return tuple(item for place, item in enumerate(items, first) if (field, place) not in places)

    files = left("files", parts.files)
    gone_files = [file for file in parts.files if file not in files]
    sources = tuple(source for source in left("sources", parts.sources) if not _is_file(source, gone_files))
    condensed = parts.condensed
    if condensed is not None:
        constraints = len(condensed.facts)
        issues = constraints + len(condensed.constraints)
        condensed = Condensed(
            left("statements", condensed.facts),
            left("statements", condensed.constraints, constraints),
            left("statements", condensed.open_issues, issues),
        )
        cited = {number for statement in _statements(condensed) for number in statement.sources}
        sources = tuple(source for source in sources if source.number in cited or _is_file(source, files))
    return replace(
        parts,
        files=files,
        condensed=condensed,
        sources=sources,
        recent=left("recent", parts.recent),
        episodes=left("episodes", parts.episodes),
    )
