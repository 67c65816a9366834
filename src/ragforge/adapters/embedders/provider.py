"""Embedders behind an HTTP service, by name: `openai:MODEL`, `voyage:MODEL`, `ollama:MODEL`, `openai-compatible:MODEL`.

They all speak OpenAI's protocol, through Pydantic AI. Batches go out a few at a time; one that fails for a passing
reason is sent again alone, after a growing pause or the one the provider asked for.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import tenacity

from ragforge.adapters import background
from ragforge.adapters.embedders.pieces import merge, unit_length, windows
from ragforge.adapters.embedders.records import ModelRecord, ProviderRecord, model_record, ollama_address, split_name
from ragforge.adapters.embedders.tokenizer import FileTokenizer
from ragforge.adapters.embedders.wordllama import shared_tokenizer
from ragforge.domain.cancel import Cancel
from ragforge.domain.tokens import Matrix, Passage, Vector
from ragforge.errors import BadVectors, MissingExtra, ProviderError, QuotaExceeded, RateLimited, UserError
from ragforge.once import once
from ragforge.ports import EmbedderCard

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
    from pydantic_ai.embeddings.settings import EmbeddingSettings
    from pydantic_ai.exceptions import ModelHTTPError

Kind = Literal["query", "document"]

_RESERVE = 16
"""Tokens kept free for a prefix and the model's own marks."""
_TOO_LARGE = ("maximum context", "too many tokens", "too many inputs", "max allowed tokens", "too long", "batch size")
_PASSING = frozenset({408, 409, 425, 429})


class _Key:
    """A key that does not show itself."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "***"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one request may take, and all tries of it together."""

    request_seconds: float = 60.0
    budget_seconds: float = 180.0
    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class _Input:
    """A text as it is sent: whole, or a piece of a passage over the model's limit."""

    owner: int
    text: str
    tokens: int


class _TooLarge(ProviderError):
    """The provider wants smaller batches."""


class _Unreachable(ProviderError):
    """Nobody listens there. Worth a second look, not minutes of waiting."""


class ProviderEmbedder:
    """One model of one provider. May be called from any thread; `close` it when done."""

    def __init__(
        self,
        name: str,
        *,
        key: str | None = None,
        base_url: str | None = None,
        patience: Patience | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._name = name
        self._provider, self._model_name = split_name(name)
        self._model_record = model_record(self._model_name)
        self._key = _Key(key) if key else None
        self._base_url = base_url or _address(self._provider, environment)
        self._patience = patience or Patience()
        self._tokenizer = shared_tokenizer()
        self._dimension: int | None = None
        self._lock = threading.Lock()
        if self._provider.key_name and not key:
            raise UserError(
                f"{name} needs a key", hint=f"set {self._provider.key_name}, or choose minilm: it needs none"
            )

    @property
    def card(self) -> EmbedderCard:
        return EmbedderCard(self._name, f"{self._name}/{_fingerprint(self._model_record)}", self._dimension)

    @property
    def tokenizer(self) -> FileTokenizer:
        """Counts with a Llama vocabulary: a little more than the providers do, so limits are kept."""
        return self._tokenizer

    def embed(self, passages: Sequence[Passage], cancel: Cancel) -> Matrix:
        cancel.check()
        inputs = self._inputs(passages)
        vectors = self._embed(inputs, "document", cancel)
        return merge(vectors, [each.owner for each in inputs], [each.tokens for each in inputs], len(passages))

    def embed_query(self, text: str, cancel: Cancel) -> Vector:
        cancel.check()
        inputs = self._inputs([Passage(text)])
        vectors = self._embed(inputs, "query", cancel)
        vector: Vector = merge(vectors, [0] * len(inputs), [each.tokens for each in inputs], 1)[0]
        return vector

    def close(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            background.run(self._client.close(), Cancel())

    # From passages to batches

    def _inputs(self, passages: Sequence[Passage]) -> list[_Input]:
        limit = self._model_record.limit - _RESERVE
        inputs = []
        for owner, passage in enumerate(passages):
            if passage.ids is not None and len(passage.ids) <= limit:
                inputs.append(_Input(owner, passage.text, len(passage.ids)))
                continue
            [tokens] = self._tokenizer.encode([passage.text])
            bounds = [*tokens.starts.tolist(), len(passage.text)]
            for start, end in windows(len(tokens), limit, limit // 8):
                inputs.append(_Input(owner, passage.text[bounds[start] : bounds[end]], end - start))
        return inputs

    def _batches(self, inputs: Sequence[_Input]) -> Iterator[list[_Input]]:
        batch: list[_Input] = []
        tokens = 0
        for each in inputs:
            full = len(batch) == self._provider.batch_count or tokens + each.tokens > self._provider.batch_tokens
            if batch and full:
                yield batch
                batch, tokens = [], 0
            batch.append(each)
            tokens += each.tokens
        if batch:
            yield batch

    # From batches to vectors

    def _embed(self, inputs: Sequence[_Input], kind: Kind, cancel: Cancel) -> Matrix:
        if not inputs:
            return np.empty((0, self._dimension or 0), dtype=np.float32)
        _ = self._model  # a package that is missing is said here, not by the thread that sends
        prefix = self._model_record.query_prefix if kind == "query" else self._model_record.document_prefix
        # providers refuse blank text
        batches = [
            [prefix + each.text if each.text.strip() else f"{prefix}." for each in batch]
            for batch in self._batches(inputs)
        ]
        budget = min(self._patience.budget_seconds, cancel.remaining())
        return unit_length(np.concatenate(background.run(self._send_all(batches, kind, budget), cancel)))

    async def _send_all(self, batches: list[list[str]], kind: Kind, budget: float) -> list[Matrix]:
        gate = asyncio.Semaphore(self._provider.parallel)

        async def send(batch: list[str]) -> Matrix:
            async with gate:
                return await self._send(batch, kind, budget)

        tasks = [asyncio.create_task(send(batch)) for batch in batches]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _send(self, texts: list[str], kind: Kind, budget: float) -> Matrix:
        """One batch, tried until it works or patience ends; in halves if the provider finds it too large."""
        tries = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(lambda problem: getattr(problem, "retryable", False)),
            wait=self._pause,
            stop=lambda state: _enough(state, budget),
            reraise=True,
        )
        try:
            return await tries(self._request, texts, kind)
        except _TooLarge:
            if len(texts) == 1:
                raise
        middle = len(texts) // 2
        halves = [await self._send(half, kind, budget) for half in (texts[:middle], texts[middle:])]
        return np.concatenate(halves)

    def _pause(self, state: tenacity.RetryCallState) -> float:
        """Exponential with jitter, but never shorter than the provider asked for."""
        first, longest = self._patience.first_pause_seconds, self._patience.longest_pause_seconds
        backoff = tenacity.wait_exponential(first, longest)(state) + tenacity.wait_random(0, first)(state)
        problem = state.outcome.exception() if state.outcome else None
        asked = problem.retry_after if isinstance(problem, RateLimited) else None
        return max(backoff, asked or 0.0)

    async def _request(self, texts: list[str], kind: Kind) -> Matrix:
        settings: EmbeddingSettings = {}
        if self._provider.says_input_type:
            settings["extra_body"] = {"input_type": kind, "truncation": False}
        with self._troubles():
            async with asyncio.timeout(self._patience.request_seconds):
                result = await self._model.embed(texts, input_type=kind, settings=settings)
        return self._checked(result.embeddings, len(texts))

    def _checked(self, embeddings: Sequence[Sequence[float]], count: int) -> Matrix:
        try:
            vectors = np.array(embeddings, dtype=np.float32)
        except (TypeError, ValueError):
            raise BadVectors(f"{self._name} sent vectors of different lengths") from None
        if vectors.ndim != 2 or len(vectors) != count or vectors.shape[1] == 0:
            raise BadVectors(f"{self._name} sent {len(vectors)} vectors for {count} texts")
        if not np.isfinite(vectors).all():
            raise BadVectors(f"{self._name} sent a vector with NaN or infinity")
        if not vectors.any(axis=1).all():
            raise BadVectors(f"{self._name} sent a vector of zeros")
        with self._lock:
            expected = self._dimension = self._dimension or vectors.shape[1]
        if vectors.shape[1] != expected:
            raise BadVectors(
                f"{self._name} sent vectors of {vectors.shape[1]} dimensions, earlier ones had {expected}",
                hint="if the model behind this name has changed: ragforge reindex",
            )
        return vectors

    @once
    def _client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI, Timeout

        return AsyncOpenAI(
            base_url=self._base_url,
            api_key=self._key.value if self._key else "none",
            max_retries=0,
            timeout=Timeout(self._patience.request_seconds, connect=min(10.0, self._patience.request_seconds)),
        )

    @once
    def _model(self) -> OpenAIEmbeddingModel:
        try:
            from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
            from pydantic_ai.providers.openai import OpenAIProvider
        except ImportError:
            raise MissingExtra("Pydantic AI", "models") from None
        return OpenAIEmbeddingModel(self._model_name, provider=OpenAIProvider(openai_client=self._client))

    # From their errors to ours

    @contextmanager
    def _troubles(self) -> Iterator[None]:
        """Say in our own words what went wrong, and never with the key."""
        from pydantic_ai.exceptions import ModelAPIError, ModelConnectionError, ModelHTTPError

        try:
            yield
        except ModelHTTPError as problem:
            raise self._explained(problem) from None
        except ModelConnectionError as problem:
            kind = _Unreachable if problem.phase == "connect" else ProviderError
            message = f"{self._name} cannot be reached at {self._base_url}"
            raise kind(message, hint=self._start_hint, retryable=True) from None
        except TimeoutError:
            seconds = f"{self._patience.request_seconds:g} s"
            raise ProviderError(f"{self._name} did not answer within {seconds}", retryable=True) from None
        except (ModelAPIError, ValueError, TypeError, AttributeError) as problem:  # an answer in some other shape
            raise BadVectors(
                f"{self._name} did not send embeddings ({type(problem).__name__})",
                hint=f"is {self._base_url} an OpenAI-compatible address?",
            ) from None

    def _explained(self, problem: ModelHTTPError) -> ProviderError:
        from pydantic_ai.exceptions import ModelContextWindowExceededError, ModelQuotaExceededError

        status, said = problem.status_code, self._said(problem)
        if isinstance(problem, ModelQuotaExceededError):
            return QuotaExceeded(
                f"the quota for {self._name} is used up", hint="add credit, or choose minilm: it is free"
            )
        if status == 413 or isinstance(problem, ModelContextWindowExceededError) or _says_too_large(status, said):
            return _TooLarge(f"{self._name} finds the text too large: {said}", hint="make the chunks smaller")
        if status == 429:
            return RateLimited(f"{self._name} asks to slow down", retry_after=problem.retry_after)
        if status in (401, 403):
            return ProviderError(
                f"{self._name} refused the key ({status})", hint=f"check {self._provider.key_name or 'the key'}"
            )
        if status == 404:
            return ProviderError(f"{self._name} was not found at {self._base_url}", hint=self._model_hint)
        passing = status in _PASSING or status >= 500
        return ProviderError(f"{self._name} answered {status}: {said}", retryable=passing)

    @property
    def _start_hint(self) -> str:
        return "is it running? ollama serve" if self._provider.name == "ollama" else "check the network and the address"

    @property
    def _model_hint(self) -> str:
        pull = f"ollama pull {self._model_name}"
        return pull if self._provider.name == "ollama" else "check the model's name and the address"

    def _said(self, problem: ModelHTTPError) -> str:
        """The provider's own words, without the key should it repeat it."""
        said = problem.body.get("message", problem.body) if isinstance(problem.body, dict) else problem.body
        words = str(said or "no reason given")
        return (words.replace(self._key.value, "***") if self._key else words)[:200]


def _enough(state: tenacity.RetryCallState, budget: float) -> bool:
    problem = state.outcome.exception() if state.outcome else None
    tries = 3 if isinstance(problem, _Unreachable) else 8
    return state.attempt_number >= tries or tenacity.stop_before_delay(budget)(state)


def _address(provider: ProviderRecord, environment: Mapping[str, str]) -> str:
    if provider.name == "ollama":
        return ollama_address(environment)
    if not provider.base_url:
        raise UserError(f"{provider.name} needs the address of a service", hint="set its base_url")
    return provider.base_url


def _fingerprint(record: ModelRecord) -> str:
    """Of everything on our side that shapes a vector."""
    return hashlib.sha256(f"1/{record!r}/{_RESERVE}".encode()).hexdigest()[:12]


def _says_too_large(status: int, said: str) -> bool:
    return status in (400, 422) and any(words in said.lower() for words in _TOO_LARGE)
