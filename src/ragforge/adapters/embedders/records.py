"""What is known of providers and of their models: addresses, batch sizes, limits, prefixes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ragforge.errors import UserError


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    """A service that embeds. One request carries at most `batch_count` texts and `batch_tokens` tokens."""

    name: str
    base_url: str
    """Empty where only the user can know it."""
    key_name: str
    """The variable that holds the key; empty if none is needed."""
    batch_count: int
    batch_tokens: int
    parallel: int = 4
    says_input_type: bool = False
    """Whether the service is told if a text is a document or a query (Voyage)."""


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A model's limit in tokens, and what it wants to read before a query and before a document."""

    limit: int
    query_prefix: str = ""
    document_prefix: str = ""


PROVIDERS = {
    record.name: record
    for record in (
        ProviderRecord("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", 256, 200_000),
        ProviderRecord("voyage", "https://api.voyageai.com/v1", "VOYAGE_API_KEY", 128, 80_000, says_input_type=True),
        ProviderRecord("ollama", "", "", 32, 16_000, parallel=1),
        ProviderRecord("openai-compatible", "", "", 64, 32_000),
    )
}

_BGE = "Represent this sentence for searching relevant passages: "
_UNKNOWN = ModelRecord(512)
_MODELS: tuple[tuple[str, ModelRecord], ...] = (
    ("text-embedding-", ModelRecord(8191)),
    ("voyage-", ModelRecord(32_000)),
    ("bge-m3", ModelRecord(8192)),
    ("bge-", ModelRecord(512, query_prefix=_BGE)),
    ("mxbai-embed-large", ModelRecord(512, query_prefix=_BGE)),
    ("e5-", ModelRecord(512, "query: ", "passage: ")),
    ("multilingual-e5-", ModelRecord(512, "query: ", "passage: ")),
    ("nomic-embed-text", ModelRecord(2048, "search_query: ", "search_document: ")),
    ("all-minilm", ModelRecord(256)),
)


def model_record(model: str) -> ModelRecord:
    """The record whose name begins the model's own; a model unknown to us is given short texts."""
    own = model.rpartition("/")[2].lower()
    return next((record for start, record in _MODELS if own.startswith(start)), _UNKNOWN)


def split_name(name: str) -> tuple[ProviderRecord, str]:
    """`provider:model` to the provider's record and the model."""
    provider, _, model = name.partition(":")
    if provider not in PROVIDERS or not model:
        raise UserError(
            f"no embedder is called {name!r}",
            hint="minilm, wordllama, or " + ", ".join(f"{known}:MODEL" for known in PROVIDERS),
        )
    return PROVIDERS[provider], model


def ollama_address(environment: Mapping[str, str]) -> str:
    """Where Ollama listens: `OLLAMA_BASE_URL` or `OLLAMA_HOST` as Ollama reads it, else this machine."""
    given = environment.get("OLLAMA_BASE_URL") or environment.get("OLLAMA_HOST") or "127.0.0.1"
    parts = urlsplit(given if "://" in given else f"http://{given}")
    host = "127.0.0.1" if parts.hostname in (None, "0.0.0.0") else parts.hostname  # noqa: S104 (listening everywhere)
    host = f"[{host}]" if host and ":" in host else host
    port = parts.port or (443 if parts.scheme == "https" else 11434)
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{host}:{port}{path if path.endswith('/v1') else f'{path}/v1'}"
