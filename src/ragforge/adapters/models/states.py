"""Which language models there are, how each would be reached, and what is missing. None of them is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

from ragforge.adapters.embedders.records import ollama_address
from ragforge.adapters.models import ollama
from ragforge.adapters.models.names import OLLAMA, Name, address, parse_name
from ragforge.adapters.models.prices import listed
from ragforge.domain.generation import ModelCard
from ragforge.domain.models import LanguageModels, LanguageModelState
from ragforge.errors import MissingExtra, NotFound, RagforgeError, UserError

_NEWEST = ":latest"
_LIBRARIES = ("pydantic_ai", "genai_prices")


@dataclass(frozen=True, slots=True)
class Access:
    """By which key and at which address a model is reached."""

    key_name: str
    key: str = field(repr=False)
    base_url: str
    window: int
    """Tokens, where the settings say it; else 0."""


def card_of(name: Name, url: str, window: int | None, environment: Mapping[str, str]) -> ModelCard:
    """Name, window and prices: by settings, else by the price list, else by what Ollama tells."""
    entry = listed(name, url)
    window = window or entry.window
    if window is None and name.provider == OLLAMA:
        window = ollama.window(url, name.model, environment)
    return ModelCard(str(name), window, entry.input_price, entry.output_price)


def at_hand(
    uses: Mapping[str, tuple[str, ...]],
    access: Callable[[Name], Access],
    environment: Mapping[str, str],
    *,
    with_cards: bool,
) -> LanguageModels:
    """The models with these names and uses, then those that an Ollama on its port has. Cards take a moment."""
    here = ollama_address(environment)
    served = {here: ollama.models(here)}

    def state(name: str, used_for: tuple[str, ...]) -> LanguageModelState:
        card, key_name, has_key = ModelCard(name, None), "", False
        try:
            parsed = parse_name(name)
            reached = access(parsed)
            key_name, has_key = reached.key_name if parsed.needs_key or reached.key else "", bool(reached.key)
            url = address(parsed, reached.base_url, environment)
            _require_libraries(name)
            if with_cards:
                card = card_of(parsed, url, reached.window, environment)
            if parsed.needs_key and not has_key:
                raise UserError("it needs a key", hint=f"set {key_name}")
            if parsed.provider == OLLAMA:
                if url not in served:
                    served[url] = ollama.models(url)
                _require_served(parsed, url, served[url])
        except RagforgeError as problem:
            return LanguageModelState(card, used_for, key_name, has_key, problem.message, problem.hint)
        return LanguageModelState(card, used_for, key_name, has_key)

    found = [f"{OLLAMA}:{model}" for model in served[here] or ()]
    others = [name for name in found if not {name, name.removesuffix(_NEWEST)} & uses.keys()]
    models = [state(*each) for each in {**uses, **dict.fromkeys(others, ())}.items()]
    return LanguageModels(tuple(models), _shown(here), None if served[here] is None else len(found))


def _shown(url: str) -> str:
    """As Ollama itself writes its address."""
    return url.removesuffix("/v1")


def _require_libraries(name: str) -> None:
    if any(find_spec(library) is None for library in _LIBRARIES):
        raise MissingExtra(f"what {name} needs", "models")


def _require_served(name: Name, url: str, models: list[str] | None) -> None:
    if models is None:
        raise NotFound(f"no Ollama answers at {_shown(url)}", hint="ollama serve")
    if not {name.model, f"{name.model}{_NEWEST}"} & set(models):
        raise NotFound("Ollama does not have it", hint=f"ollama pull {name.model}")
