"""Rerankers behind an HTTP service, by name: `cohere:MODEL`, `jina:MODEL`, `voyage:MODEL`.

All take a question with texts at `/rerank` and send scores, best first, with the number of the text. A service of
one's own that speaks one of these formats is reached by its address. Someone waits for the answer: patience is short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import tenacity

from ragforge.adapters import background
from ragforge.adapters.embedders.provider import Patience
from ragforge.domain.cancel import Cancel
from ragforge.errors import MissingExtra, ProviderError, QuotaExceeded, RateLimited, UserError
from ragforge.once import once

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

_PATIENCE = Patience(request_seconds=10.0, budget_seconds=15.0, first_pause_seconds=0.3, longest_pause_seconds=5.0)
_TRIES = 3
_PASSING = frozenset({408, 409, 425})


@dataclass(frozen=True, slots=True)
class Service:
    """What one provider calls things."""

    base_url: str
    key_name: str
    """The variable that holds the key."""
    results: str = "results"
    """The field of the answer that holds the scores."""
    extra: Mapping[str, object] = field(default_factory=dict)
    """What else a request says."""


SERVICES = {
    "cohere": Service("https://api.cohere.com/v2", "COHERE_API_KEY"),
    "jina": Service("https://api.jina.ai/v1", "JINA_API_KEY", extra={"return_documents": False}),
    # told not to cut texts that are too long, it refuses them aloud
    "voyage": Service("https://api.voyageai.com/v1", "VOYAGE_API_KEY", results="data", extra={"truncation": False}),
}


class ProviderReranker:
    """One model of one provider. May be called from any thread; `close` it when done."""

    def __init__(
        self, name: str, *, key: str | None = None, base_url: str | None = None, patience: Patience | None = None
    ) -> None:
        self._name = name
        self._service, self._model = split_name(name)
        self._address = (base_url or self._service.base_url).rstrip("/") + "/rerank"
        self._patience = patience or _PATIENCE
        if not key and not base_url:
            raise ProviderError(
                f"{name} needs a key", hint=f"set {self._service.key_name}, or the reranker to cosine: it needs none"
            )
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    @property
    def name(self) -> str:
        return self._name

    def score(self, question: str, texts: Sequence[str], cancel: Cancel) -> list[float]:
        cancel.check()
        if not texts:
            return []
        # providers refuse blank text
        body = {
            "model": self._model,
            "query": question if question.strip() else ".",
            "documents": [text if text.strip() else "." for text in texts],
            **self._service.extra,
        }
        budget = min(self._patience.budget_seconds, cancel.remaining())
        return background.run(self._send(body, budget), cancel)

    def close(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            background.run(self._client.aclose(), Cancel())

    async def _send(self, body: dict[str, Any], budget: float) -> list[float]:
        tries = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(lambda problem: getattr(problem, "retryable", False)),
            wait=self._pause,
            stop=tenacity.stop_any(tenacity.stop_after_attempt(_TRIES), tenacity.stop_before_delay(budget)),
            reraise=True,
        )
        return await tries(self._request, body)

    def _pause(self, state: tenacity.RetryCallState) -> float:
        """Exponential, but never shorter than the provider asked for."""
        backoff = tenacity.wait_exponential(self._patience.first_pause_seconds, self._patience.longest_pause_seconds)
        problem = state.outcome.exception() if state.outcome else None
        asked = problem.retry_after if isinstance(problem, RateLimited) else None
        return max(backoff(state), asked or 0.0)

    async def _request(self, body: dict[str, Any]) -> list[float]:
        with self._troubles():
            async with asyncio.timeout(self._patience.request_seconds):
                response = await self._client.post(self._address, json=body)
            if response.is_error:
                raise self._refusal(response)
            return _scores(response.json()[self._service.results], len(body["documents"]))

    @once
    def _client(self) -> AsyncClient:
        try:
            from httpx2 import AsyncClient
        except ImportError:
            raise MissingExtra("the HTTP client", "models") from None
        return AsyncClient(headers=self._headers, timeout=self._patience.request_seconds)

    # From their errors to ours

    @contextmanager
    def _troubles(self) -> Iterator[None]:
        """Say in our own words what went wrong, and never with the key."""
        _ = self._client
        from httpx2 import ConnectError, HTTPError, TimeoutException

        try:
            yield
        except ConnectError:
            message = f"{self._name} cannot be reached at {self._address}"
            raise ProviderError(message, hint="check the network and the address", retryable=True) from None
        except (TimeoutError, TimeoutException):
            seconds = f"{self._patience.request_seconds:g} s"
            raise ProviderError(f"{self._name} did not answer within {seconds}", retryable=True) from None
        except HTTPError as problem:
            message = f"the connection to {self._name} broke ({type(problem).__name__})"
            raise ProviderError(message, retryable=True) from None
        except (ValueError, TypeError, KeyError, IndexError) as problem:  # an answer in some other shape
            raise ProviderError(
                f"{self._name} did not send a score for each text ({type(problem).__name__})",
                hint=f"does {self._address} speak the format of {self._name.partition(':')[0]}?",
            ) from None

    def _refusal(self, response: Response) -> ProviderError:
        status, said = response.status_code, self._said(response)
        if status == 402 or (status == 429 and "quota" in said.lower()):
            return QuotaExceeded(f"the quota for {self._name} is used up", hint="add credit, or rerank by cosine")
        if status == 429:
            return RateLimited(f"{self._name} asks to slow down", retry_after=_seconds(response))
        if status in (401, 403):
            return ProviderError(f"{self._name} refused the key ({status})", hint=f"check {self._service.key_name}")
        if status == 404:
            message = f"{self._name} was not found at {self._address}"
            return ProviderError(message, hint="check the model's name and the address")
        return ProviderError(f"{self._name} answered {status}: {said}", retryable=status in _PASSING or status >= 500)

    def _said(self, response: Response) -> str:
        """The provider's own words, without the key should it repeat it."""
        try:
            body = response.json()
        except ValueError:
            body = response.text
        if isinstance(body, dict):
            body = body.get("message") or body.get("detail") or body.get("error") or body
        key = self._headers.get("Authorization", "").removeprefix("Bearer ")
        words = str(body or "no reason given")
        return (words.replace(key, "***") if key else words)[:200]


def split_name(name: str) -> tuple[Service, str]:
    """`provider:model` to the provider's service and the model."""
    provider, _, model = name.partition(":")
    if provider not in SERVICES or not model:
        known = ", ".join(f"{known}:MODEL" for known in SERVICES)
        raise UserError(f"no reranker is called {name!r}", hint=f"use cosine, cross-encoder, or {known}")
    return SERVICES[provider], model


def _scores(results: Sequence[Mapping[str, Any]], count: int) -> list[float]:
    """The scores in the order of the texts. KeyError if one is missing."""
    found = {int(each["index"]): float(each["relevance_score"]) for each in results}
    return [found[index] for index in range(count)]


def _seconds(response: Response) -> float | None:
    """How long the provider wants to be left alone: it says so in seconds or with a date."""
    asked = response.headers.get("Retry-After", "")
    try:
        return float(asked)
    except ValueError:
        pass
    try:
        return (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return None
