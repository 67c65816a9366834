"""OpenAI's chat completions: what they say as a question of ours, and our answers in their shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ragforge.app import AskOptions
from ragforge.domain.answers import Abstention, Answer, Citation, Result
from ragforge.domain.conversation import Turn
from ragforge.errors import NotFound, UserError
from ragforge.interfaces.fields.answers import source_fields
from ragforge.interfaces.http.requests import past_turn

PREFIX = "ragforge/"
"""Before the slug of a project: its name as a model."""
_LONGEST_QUESTION = 100_000
_MOST_TEXT = 300_000
"""Characters that are embedded at once."""


class Unsupported(UserError):
    """Something of OpenAI's that is not done here; `param` names it."""

    def __init__(self, param: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.param = param


class UnknownModel(NotFound):
    """Not the name of a project that the caller reaches."""


# -- what is sent


Stop = Annotated[str, Field(min_length=1, max_length=1_000)]
Tools = Annotated[list[Any], Field(max_length=1_000)]


class Taken(BaseModel):
    """As OpenAI does, what is not known is left aside."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Part(Taken):
    type: Annotated[str, Field(max_length=100)]
    text: Annotated[str, Field(max_length=4_000_000)] | None = None


class ChatMessage(Taken):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: (
        Annotated[str, Field(max_length=4_000_000)]
        | Annotated[list[Part], Field(max_length=1_000, fail_fast=True)]
        | None
    ) = None


class StreamOptions(Taken):
    include_usage: bool | None = None


class ResponseFormat(Taken):
    type: Annotated[str, Field(max_length=100)]


class ChatRequest(Taken):
    """The fields of OpenAI's that have a meaning here."""

    model: Annotated[str, Field(max_length=1_000)]
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=10_000, fail_fast=True)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=4)] | None = None
    n: int | None = None
    tools: Tools | None = None
    functions: Tools | None = None
    response_format: ResponseFormat | None = None

    def refuse_what_is_not_done(self) -> None:
        if self.n not in (None, 1):
            raise Unsupported("n", "there is one answer to a question: n can only be 1", hint="ask again for another")
        for name, given in (("tools", self.tools), ("functions", self.functions)):
            if given:
                raise Unsupported(
                    name, f"{name} cannot be given: a project answers from its files", hint="leave it out"
                )
        if self.response_format is not None and self.response_format.type != "text":
            raise Unsupported("response_format", "answers are text with citations", hint="leave response_format out")

    def sampling(self) -> AskOptions:
        """What is said of how to write, as `ask` takes it."""
        how = AskOptions()
        if self.temperature is not None:
            how["temperature"] = self.temperature
        if most := self.max_completion_tokens or self.max_tokens:
            how["max_tokens"] = most
        if self.stop:
            how["stop"] = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        return how


class EmbeddingRequest(Taken):
    model: Annotated[str, Field(max_length=1_000)]
    input: (
        Annotated[str, Field(min_length=1, max_length=_MOST_TEXT)]
        | Annotated[
            list[Annotated[str, StringConstraints(min_length=1, max_length=_MOST_TEXT)]],
            Field(min_length=1, max_length=256),
        ]
    )
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input

    def refuse_too_much(self) -> None:
        if sum(map(len, self.texts)) > _MOST_TEXT:
            raise Unsupported(
                "input", f"more than {_MOST_TEXT:,} characters at once", hint="send fewer texts at a time"
            )


@dataclass(frozen=True, slots=True)
class Conversed:
    """Messages, understood: the last that the user said is the question, and what came before it is history."""

    question: str
    history: tuple[Turn, ...]
    system: str


def conversed(messages: Sequence[ChatMessage], now: datetime) -> Conversed:
    """Raises `Unsupported` where a message is not text, or the last word is not the user's."""
    said = [(message.role, _text(number, message)) for number, message in enumerate(messages)]
    system = "\n\n".join(text for role, text in said if role in ("system", "developer") and text)
    spoken = [(role, text) for role, text in said if role in ("user", "assistant")]
    if not spoken or spoken[-1][0] != "user":
        raise Unsupported(
            "messages", "the last message must be the user's: it is the question", hint="put the question last"
        )
    last = next(place for place, (role, _) in reversed(list(enumerate(spoken))) if role == "user")
    question = spoken[last][1].strip()
    if not question or len(question) > _LONGEST_QUESTION:
        raise Unsupported(
            "messages",
            f"the question needs 1 to {_LONGEST_QUESTION:,} characters",
            hint="ask in the last message; long texts are for the project's files",
        )
    return Conversed(question, tuple(_turns(spoken[:last], now)), system)


def _text(number: int, message: ChatMessage) -> str:
    param = f"messages[{number}]"
    if message.role in ("tool", "function"):
        raise Unsupported(f"{param}.role", "there are no tools here", hint="leave such messages out")
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    for part in message.content:
        if part.type not in ("text", "refusal"):
            raise Unsupported(
                f"{param}.content",
                f"only text is taken, not {part.type[:50]!r}",
                hint="add files to the project instead",
            )
    return "\n".join(part.text or "" for part in message.content)


def _turns(spoken: Iterable[tuple[str, str]], now: datetime) -> Iterator[Turn]:
    """Each answer with all that was asked since the one before."""
    asked: list[str] = []
    for role, text in spoken:
        if role == "user":
            asked.append(text)
            continue
        yield past_turn("\n\n".join(asked), text, now)
        asked = []
    if asked:
        yield past_turn("\n\n".join(asked), "", now)


# -- what comes back


@dataclass(frozen=True, slots=True)
class Replies:
    """Answers to one request."""

    id: str
    model: str
    created: int
    files: str
    """Where the project's files are, for the addresses of citations."""

    def whole(self, result: Result) -> dict[str, Any]:
        message = {"role": "assistant", "content": result.text, "refusal": None, "annotations": self._marks(result)}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(result)}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage_of(result), **_ours(result)}

    def begun(self) -> dict[str, Any]:
        return self._chunk({"role": "assistant", "content": ""})

    def piece(self, text: str) -> dict[str, Any]:
        return self._chunk({"content": text})

    def ended(self, result: Result) -> dict[str, Any]:
        """The last piece: why it ends, what is cited, and what it stands on."""
        return {**self._chunk({"annotations": self._marks(result)}, finish_reason(result)), **_ours(result)}

    def used(self, result: Result) -> dict[str, Any]:
        return {**self._head("chat.completion.chunk"), "choices": [], "usage": usage_of(result)}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def _marks(self, result: Result) -> list[dict[str, Any]]:
        return [self._mark(each) for each in result.citations] if isinstance(result, Answer) else []

    def _mark(self, citation: Citation) -> dict[str, Any]:
        page = citation.locator.page
        place = citation.locator.label()
        cited = {
            "url": f"{self.files}/{citation.document}/content" + (f"#page={page}" if page else ""),
            "title": f"{citation.name}, {place}" if place else citation.name,
            "start_index": citation.start,
            "end_index": citation.end,
            "file": citation.name,
            "page": page,
            "quote": citation.quote,
            "marker": citation.marker,
            "proved": citation.proved,
        }
        return {"type": "url_citation", "url_citation": cited}


def finish_reason(result: Result) -> str:
    """An abstention is an answer too, and a whole one."""
    return "length" if isinstance(result, Answer) and result.account.usage.cut else "stop"


def usage_of(result: Result) -> dict[str, int]:
    usage = result.account.usage
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _ours(result: Result) -> dict[str, Any]:
    """What OpenAI's format has no place for."""
    none = result if isinstance(result, Abstention) else None
    account = result.account
    told = {
        "kind": "abstention" if none else "answer",
        "why": none.why if none else None,
        "reason": none.reason if none else None,
        "suggestion": none.suggestion if none else None,
        "quoted": isinstance(result, Answer) and result.quoted,
        "notices": account.notices,
        "degraded": account.degraded,
        "model": account.model or None,
        "trace_id": account.trace_id,
    }
    return {"sources": [source_fields(each) for each in account.sources], "ragforge": told}
