"""Language models by name, through Pydantic AI: `openai:MODEL`, `anthropic:MODEL`, `ollama:MODEL`,
`openai-compatible:MODEL`, and whatever else it knows.

A call is tried at most twice, and a second time only if the first failed for a passing reason before a word of it
reached the caller. A model that fails again and again is left alone for a few seconds.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from inspect import signature
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from ragforge.adapters import background
from ragforge.adapters.models import counting, ollama
from ragforge.adapters.models.breaker import Breaker, Resting, Unfinished
from ragforge.adapters.models.names import COMPATIBLE, OLLAMA, address, is_local, nearest, parse_name
from ragforge.adapters.models.shapes import Misfit, form_of
from ragforge.adapters.models.states import card_of
from ragforge.adapters.models.tools import Toolbox, all_said, lenient, reply_of, results_of, tool_tokens
from ragforge.adapters.models.troubles import Troubles, UnknownModel
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.generation import Acted, Message, ModelCard, Role, Sampling, Tool, Usage
from ragforge.domain.pending import Pending
from ragforge.errors import MissingExtra, ProviderError, RateLimited, TooLarge, UserError, WrongShape
from ragforge.once import once

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponseStreamEvent
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.profiles import ModelProfile
    from pydantic_ai.providers import Provider
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.usage import RequestUsage

Shaped = TypeVar("Shaped")

_TRIES = 2
_NO_TEMPERATURE = ("openai_supports_reasoning", "anthropic_disallows_sampling_settings")
"""Marks of models that think first and refuse to be told a temperature."""
_LONGEST_TOKEN = 32
"""Characters that a token has on average, at most."""
_NEEDED_SECONDS = 0.2
"""A second try with less time left than this is not worth its price."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a model may be silent, and how long we wait before the second try."""

    idle_seconds: float = 60.0
    """Until the first word, and between two."""
    pause_seconds: float = 0.3
    longest_pause_seconds: float = 10.0
    """Asked to wait longer than this, we say so instead."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """What a model says after its last word."""

    usage: RequestUsage | None = None
    reason: str | None = None


class ServedModel:
    """One model of one provider. May be called from any thread; `close` it when done."""

    def __init__(
        self,
        name: str,
        *,
        key: str = "",
        key_name: str = "",
        base_url: str = "",
        proxy: str = "",
        window: int | None = None,
        patience: Patience | None = None,
        breaker: Breaker | None = None,
        environment: Mapping[str, str] = os.environ,
        calling: Callable[[], AbstractContextManager[object]] = nullcontext,
        spent: Callable[[Usage], None] = lambda usage: None,
    ) -> None:
        """Every request that is sent is sent inside of `calling`; `spent` is told what it took."""
        self._name = parse_name(name)
        self._url = address(self._name, base_url, environment)
        self._proxy, self._given_window, self._environment = proxy, window, environment
        self._patience, self._calling, self._spent = patience or Patience(), calling, spent
        self._breaker = breaker or Breaker(name)
        key_name = key_name or self._name.key_name
        if self._name.needs_key and not key:
            with suppress(ImportError):
                _provider_class(self._name.provider)  # a name with a slip needs no key
            raise UserError(
                f"{name} needs a key", hint=f"set {key_name}, or leave model.name empty: answers then quote"
            )
        self._troubles = Troubles(self._name, key_name, key, self._url)

    @once
    def card(self) -> ModelCard:
        """Name, window and prices: by settings, else by the price list, else by what Ollama tells."""
        return card_of(self._name, self._url, self._given_window, self._environment)

    def count(self, text: str) -> int:
        """Tokens of a text; an estimate that is not too low."""
        return counting.count(text, self._name.provider)

    def tool_tokens(self, tools: Sequence[Tool]) -> int:
        """What the descriptions of tools take of a prompt; an estimate that is not too low."""
        return tool_tokens(tools, self._name.provider)

    def close(self) -> None:
        """Close the connections."""
        if "_http" in self.__dict__:
            background.run(self._http.aclose(), Cancel())

    # -- text

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, request: str, cancel: Cancel
    ) -> Iterator[str | Usage | Pending]:
        """Pieces of text as they come and, last of all, the usage."""
        self._check_size(messages, sampling)
        with self._in_time(cancel, ()):
            cancel.check()
        sent, settings, began = _sent(messages), self._settings(sampling, request), time.monotonic()
        for calls in range(1, _TRIES + 1):
            written: list[str] = []
            room = _LONGEST_TOKEN * sampling.max_tokens
            try:
                with self._breaker.watch(), self._in_time(cancel, written):
                    for piece in background.stream(self._pieces(sent, settings), cancel):
                        if isinstance(piece, Pending):
                            yield piece
                        elif isinstance(piece, _Ended):
                            self._check_end(piece, written)
                            ended = piece
                        else:
                            written.append(piece)
                            room -= len(piece)
                            self._check_length(room, sampling)
                            yield piece
            except ProviderError as problem:
                if written:
                    problem.usage = self._usage(_Ended(), messages, "".join(written), calls, began)
                if written or calls == _TRIES or not self._again(problem, cancel):
                    raise
                continue
            yield self._usage(ended, messages, "".join(written), calls, began)
            return

    async def _pieces(
        self, messages: list[ModelMessage], settings: ModelSettings
    ) -> AsyncGenerator[str | _Ended, None]:
        from pydantic_ai.models import ModelRequestParameters

        with self._calling(), self._troubles.explained():
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._patience.idle_seconds):
                    opened = self._model.request_stream(messages, settings, ModelRequestParameters())
                    response = await stack.enter_async_context(opened)
                events = aiter(response)
                while True:
                    async with asyncio.timeout(self._patience.idle_seconds):
                        event = await anext(events, None)
                    if event is None:
                        break
                    if text := _text(event):
                        yield text
                yield _Ended(response.usage, response.finish_reason)

    def _check_end(self, ended: _Ended, written: Sequence[str]) -> None:
        """A stream that just stops is no answer, nor is one without a word."""
        if ended.reason == "content_filter":
            raise ProviderError(f"{self._name} refused to answer", hint="put the question in other words")
        if ended.reason is None:
            raise ProviderError(f"{self._name} broke off in the middle of its answer", retryable=True)
        if not any(written):
            raise self._troubles.nonsense("no text")

    def _check_length(self, room: int, sampling: Sampling) -> None:
        """A service that does not keep to the limit it was given could fill the memory."""
        if room < 0:
            raise ProviderError(
                f"{self._name} does not keep to {sampling.max_tokens:,} tokens", hint="choose another model"
            )

    # -- structure

    def fill(
        self, messages: Sequence[Message], shape: type[Shaped], sampling: Sampling, request: str, cancel: Cancel
    ) -> tuple[Shaped, Usage]:
        """An answer in the shape of a dataclass, checked; one more try if it does not fit."""
        self._check_size(messages, sampling)
        with self._in_time(cancel, ()):
            cancel.check()
        sent, settings, began = _sent(messages), self._settings(sampling, request), time.monotonic()
        form, usage = form_of(shape), Usage()
        asked = form.parameters(native=bool(self._model.profile.get("supports_json_schema_output")))
        for calls in range(1, _TRIES + 1):
            try:
                with self._breaker.watch(), self._in_time(cancel, ()):
                    response = background.run(self._response(sent, settings, asked, form.said), cancel)
            except ProviderError as problem:
                problem.usage = usage
                if calls == _TRIES or not self._again(problem, cancel):
                    raise
                continue
            said = form.said(response)
            spent = self._usage(_Ended(response.usage, response.finish_reason), messages, said, calls, began)
            usage = replace(usage + spent, calls=calls, seconds=spent.seconds)
            try:
                return form.read(said), usage
            except Misfit as problem:
                if calls == _TRIES:
                    wrong = f"{self._name} did not answer in the shape asked for ({problem})"
                    misfit = WrongShape(wrong, hint="choose a stronger model")
                    misfit.usage = usage
                    raise misfit from None
                sent = [*sent, *form.feedback(said, str(problem))]
        raise AssertionError("every try returns or raises")

    def act(
        self, messages: Sequence[Message], tools: Sequence[Tool], sampling: Sampling, request: str, cancel: Cancel
    ) -> tuple[Acted, Usage]:
        """The calls a model makes, each checked. One that does not fit is no failure: the model can be told."""
        self._check_size(messages, sampling, tools)
        with self._in_time(cancel, ()):
            cancel.check()
        sent, settings, began = _sent(messages), self._settings(sampling, request), time.monotonic()
        box = Toolbox(tuple(tools))
        asked = box.parameters()
        for calls in range(1, _TRIES + 1):
            try:
                with self._breaker.watch(), self._in_time(cancel, ()):
                    response = background.run(self._response(sent, settings, asked, all_said), cancel)
            except ProviderError as problem:
                if calls == _TRIES or not self._again(problem, cancel):
                    raise
                continue
            ended = _Ended(response.usage, response.finish_reason)
            return box.read(response, messages), self._usage(ended, messages, all_said(response), calls, began, tools)
        raise AssertionError("every try returns or raises")

    async def _response(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings,
        asked: ModelRequestParameters,
        said: Callable[[ModelResponse], str],
    ) -> ModelResponse:
        with self._calling(), self._troubles.explained():
            async with asyncio.timeout(self._patience.idle_seconds):
                response = await self._model.request(messages, settings, asked)
            if not said(response):
                raise self._troubles.nonsense("no text")
            return response

    # -- around every call

    @contextmanager
    def _in_time(self, cancel: Cancel, written: Sequence[str]) -> Iterator[None]:
        """Time that ran out is the model's failure, or at least its news; a cancel is the caller's wish."""
        try:
            yield
        except Cancelled:
            if cancel.remaining() > 0:
                raise
            if written:
                raise Unfinished(
                    f"{self._name} was still writing when the time ended",
                    hint="raise model.timeout_seconds, or choose a faster model",
                    retryable=True,
                ) from None
            raise ProviderError(
                f"{self._name} did not answer in the time given",
                hint="raise model.timeout_seconds, or choose a faster model",
                retryable=True,
            ) from None
        except UnknownModel as problem:
            raise ProviderError(problem.message, hint=self._unknown_hint()) from None

    def _again(self, problem: ProviderError, cancel: Cancel) -> bool:
        """Whether to try once more, after the pause that is due."""
        if not problem.retryable or isinstance(problem, Resting):
            return False
        asked = problem.retry_after if isinstance(problem, RateLimited) else None
        pause = max(self._patience.pause_seconds * random.uniform(0.5, 1.5), asked or 0.0)  # noqa: S311 (no secret)
        if pause > self._patience.longest_pause_seconds or pause + _NEEDED_SECONDS > cancel.remaining():
            return False
        if cancel.wait(pause) and cancel.remaining() > 0:
            raise Cancelled
        return cancel.remaining() > 0

    def _check_size(self, messages: Sequence[Message], sampling: Sampling, tools: Sequence[Tool] = ()) -> None:
        """Refuse what does not fit before anything is sent: a service may drop the rest in silence."""
        window = self.card.window
        if window is None:
            return
        prompt = counting.count_messages(messages, self._name.provider) + self.tool_tokens(tools)
        over = prompt + sampling.max_tokens - window
        if over > 0:
            raise TooLarge(
                f"the prompt has {prompt:,} tokens and the answer may have {sampling.max_tokens:,}: "
                f"{over:,} more than the {window:,} of {self._name}",
                hint="give it less context or a shorter answer, choose a model with a larger window, "
                "or set model.window if it reads more",
            )

    def _settings(self, sampling: Sampling, request: str) -> ModelSettings:
        trace = re.sub(r"[^\w.:-]", "", request, flags=re.ASCII)
        settings: ModelSettings = {
            "max_tokens": sampling.max_tokens,
            "extra_headers": {"X-Request-Id": trace, "X-Client-Request-Id": trace},
            "max_retries": 0,
        }
        if not any(self._model.profile.get(mark) for mark in _NO_TEMPERATURE):
            settings["temperature"] = sampling.temperature
        if sampling.stop:
            settings["stop_sequences"] = list(sampling.stop)
        return settings

    def _usage(
        self,
        ended: _Ended,
        messages: Sequence[Message],
        text: str,
        calls: int,
        began: float,
        tools: Sequence[Tool] = (),
    ) -> Usage:
        """As the provider counted, or by our own estimate where it did not."""
        provider = self._name.provider
        told = ended.usage
        into = (told and told.input_tokens) or counting.count_messages(messages, provider) + self.tool_tokens(tools)
        out = (told and told.output_tokens) or counting.count(text, provider)
        usage = Usage(
            into, out, calls, self.card.cost(into, out), time.monotonic() - began, cut=ended.reason == "length"
        )
        self._spent(usage)
        return usage

    # -- the library's side

    @once
    def _http(self) -> httpx2.AsyncClient:
        import httpx2

        timeout = httpx2.Timeout(self._patience.idle_seconds, connect=min(10.0, self._patience.idle_seconds))
        # a proxy for the outside must not be asked for this machine
        from_environment = not is_local(self._url)
        many = httpx2.Limits(max_connections=None, max_keepalive_connections=20)  # as many answers as are asked for
        return httpx2.AsyncClient(proxy=self._proxy or None, trust_env=from_environment, timeout=timeout, limits=many)

    @once
    def _model(self) -> Model:
        try:
            return self._make_model()
        except ImportError as problem:
            raise MissingExtra(f"what {self._name} needs ({problem.name})", "models") from None

    def _make_model(self) -> Model:
        from pydantic_ai.models import infer_model

        key, url, model = self._troubles.key or "none", self._url, self._name.model
        if self._name.provider in ("openai", COMPATIBLE):
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.providers.openai import OpenAIProvider

            openai = OpenAIProvider(base_url=url, api_key=key, http_client=self._http)
            return lenient(OpenAIChatModel)(model, provider=openai, profile=self._profile(openai))
        if self._name.provider == OLLAMA:
            from pydantic_ai.models.ollama import OllamaModel
            from pydantic_ai.providers.ollama import OllamaProvider

            local = OllamaProvider(base_url=url, api_key=key, http_client=self._http)
            return lenient(OllamaModel)(model, provider=local, profile=self._profile(local))
        if self._name.provider == "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel(model, provider=AnthropicProvider(api_key=key, base_url=url, http_client=self._http))
        return infer_model(str(self._name), self._other_provider)

    def _profile(self, provider: Provider[Any]) -> ModelProfile:
        """What the library knows of the model, with our own wishes on top."""
        from pydantic_ai.profiles import merge_profile
        from pydantic_ai.profiles.openai import OpenAIModelProfile

        wishes = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
        if self._name.provider != "openai":  # those who imitate OpenAI know only the older name of the limit
            wishes["openai_chat_supports_max_completion_tokens"] = False
        return merge_profile(provider.model_profile(self._name.model), wishes)

    def _other_provider(self, provider: str) -> Provider[Any]:
        kind = _provider_class(provider)
        given = {"api_key": self._troubles.key, "base_url": self._url}
        return kind(**{name: given[name] for name in signature(kind).parameters if given.get(name)})

    def _unknown_hint(self) -> str:
        if similar := nearest(self._name.model, self._known_models()):
            return "did you mean " + " or ".join(f"{self._name.provider}:{each}" for each in similar) + "?"
        if self._name.provider == OLLAMA:
            return f"ollama pull {self._name.model}"
        return "check the model's name" + (f" and the address {self._url}" if self._url else "")

    def _known_models(self) -> list[str]:
        if self._name.provider == OLLAMA:
            return ollama.models(self._url) or []
        if self._name.provider == COMPATIBLE:
            return ollama.listed(self._url)
        from pydantic_ai.models import known_model_names

        start = f"{self._name.provider}:"
        return [name.removeprefix(start) for name in known_model_names() if name.startswith(start)]


def _provider_class(provider: str) -> type[Provider[Any]]:
    from pydantic_ai.providers import infer_provider_class

    try:
        return infer_provider_class(provider)
    except ValueError:
        raise UserError(
            f"no provider is called {provider!r}",
            hint="use openai, anthropic, ollama or openai-compatible, a colon, and a model of theirs",
        ) from None


def _sent(messages: Sequence[Message]) -> list[ModelMessage]:
    """Our messages as the library's, in the same order and letter for letter."""
    from pydantic_ai.messages import ModelRequest, SystemPromptPart, UserPromptPart

    sent: list[ModelMessage] = []
    for role, together in groupby(messages, key=lambda message: message.role):
        if role is Role.TOOL:
            sent.append(results_of(together))
        elif role is Role.ASSISTANT:
            sent += map(reply_of, together)
        else:
            part = SystemPromptPart if role is Role.SYSTEM else UserPromptPart
            sent += [ModelRequest(parts=[part(message.text)]) for message in together]
    return sent


def _text(event: ModelResponseStreamEvent) -> str:
    """The words in an event, if any; a model's thoughts are none."""
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""
