"""From what Pydantic AI raises to our own errors: each says what happened and what to do, and none shows a key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragforge.adapters.models.names import OLLAMA, Name
from ragforge.errors import ProviderError, QuotaExceeded, RagforgeError, RateLimited, TooLarge

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelAPIError

_PASSING = frozenset({408, 409, 425})


class UnknownModel(ProviderError):
    """The service does not know the model; what it does know takes another call to find out."""


@dataclass(frozen=True, slots=True)
class Troubles:
    """Explains what went wrong with one model."""

    name: Name
    key_name: str
    key: str = field(repr=False)
    url: str

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Around a call. Whatever a service sends ends as one of our errors."""
        from pydantic_ai.exceptions import ModelAPIError

        try:
            yield
        except RagforgeError:
            raise
        except ModelAPIError as problem:
            raise self._explained(problem) from None
        except TimeoutError:
            raise ProviderError(f"{self.name} did not answer in time", hint=self._slow_hint, retryable=True) from None
        except Exception as problem:
            # the libraries stumble over a service that breaks its protocol in ways of their own
            raise self.nonsense(type(problem).__name__) from None

    def nonsense(self, what: str) -> ProviderError:
        """The service sent something that is no answer."""
        return ProviderError(
            f"{self.name} sent no answer that can be read ({what})",
            hint=f"is {self.url} the right address?" if self.url else "try again, or choose another model",
            retryable=True,
        )

    def _explained(self, problem: ModelAPIError) -> ProviderError | TooLarge:
        from pydantic_ai import exceptions as theirs

        status = problem.status_code if isinstance(problem, theirs.ModelHTTPError) else 0
        if isinstance(problem, theirs.ModelQuotaExceededError):
            hint = "add credit with the provider, or choose another model"
            return QuotaExceeded(f"the quota for {self.name} is used up", hint=hint)
        if isinstance(problem, theirs.ModelRateLimitError) or status == 429:
            wait = f"{problem.retry_after:,.0f} s" if problem.retry_after else "a moment"
            hint = f"wait {wait}, or choose another model"
            return RateLimited(f"{self.name} asks to slow down", hint=hint, retry_after=problem.retry_after)
        if isinstance(problem, theirs.ModelAuthenticationError) or status in (401, 403):
            refusal = f"{self.name} refused the key" if self.key else f"{self.name} wants a key"
            return ProviderError(f"{refusal} ({status})", hint=f"set {self.key_name} to a key that may use this model")
        if isinstance(problem, theirs.ModelContextWindowExceededError):
            return TooLarge(
                f"the prompt does not fit {self.name}: {self._said(problem)}",
                hint="set model.window to what the model reads, so that prompts are made to fit",
            )
        if isinstance(problem, theirs.ModelNotFoundError) or status == 404:
            return UnknownModel(f"no model is called {self.name}")
        if isinstance(problem, theirs.ModelTimeoutError | theirs.ModelRequestTimeout):
            return ProviderError(f"{self.name} did not answer in time", hint=self._slow_hint, retryable=True)
        if isinstance(problem, theirs.ModelConnectionError):
            if problem.phase == "read":
                return ProviderError(f"{self.name} broke the connection", hint="try again", retryable=True)
            where = f" at {self.url}" if self.url else ""
            return ProviderError(f"{self.name} cannot be reached{where}", hint=self._start_hint, retryable=True)
        if not status:
            return self.nonsense(self._said(problem) if problem.body else type(problem).__name__)
        passing = status in _PASSING or status >= 500
        hint = "try again in a while, or choose another model" if passing else "check the model's name and settings"
        return ProviderError(f"{self.name} answered {status}: {self._said(problem)}", hint=hint, retryable=passing)

    @property
    def _slow_hint(self) -> str:
        return "raise model.idle_seconds, or choose a faster model"

    @property
    def _start_hint(self) -> str:
        return "is it running? ollama serve" if self.name.provider == OLLAMA else "check the network and the address"

    def _said(self, problem: ModelAPIError) -> str:
        """The provider's own words, without the key should it repeat it."""
        body = problem.body
        while isinstance(body, dict) and ("error" in body or "message" in body):
            body = body.get("message") or body["error"]
        return self.without_key(str(body or "no reason given"))[:200]

    def without_key(self, text: str) -> str:
        return text.replace(self.key, "***") if self.key else text
