"""The options that change how passages are found, shared by every command that searches."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from ragforge.domain.retrieval import Tuning

Tune = Callable[[Tuning], Tuning]
"""A tuning, changed as the options say."""

_OPTIONS: dict[str, Any] = {
    "k": Annotated[int | None, typer.Option("--k", "-k", min=1, metavar="N", help="Passages to find")],
    "alpha": Annotated[
        float | None,
        typer.Option("--alpha", min=0, max=1, metavar="SHARE", help="Share of the vector score, 0 to 1"),
    ],
    "fusion": Annotated[
        Literal["weighted", "rrf"] | None, typer.Option("--fusion", help="Blend scores, or reciprocal ranks")
    ],
    "keyword_candidates": Annotated[
        int | None,
        typer.Option("--keyword-candidates", min=1, metavar="N", help="Candidates from the keyword index"),
    ],
    "vector_candidates": Annotated[
        int | None,
        typer.Option("--vector-candidates", min=1, metavar="N", help="Candidates from the vector index"),
    ],
    "reranker": Annotated[
        str | None,
        typer.Option("--reranker", metavar="NAME", help="cosine, cross-encoder or provider:model; '' for none"),
    ],
    "duplicates": Annotated[
        float | None,
        typer.Option("--duplicates", min=0, max=1, metavar="SHARE", help="Shared words that make two chunks one"),
    ],
}


def tuning_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options above in place of its parameter `tune`."""
    signature = inspect.signature(function, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "tune"]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _OPTIONS.items()
    ]

    @functools.wraps(function)
    def run(*arguments: Any, **values: Any) -> None:
        given = {name: value for name in _OPTIONS if (value := values.pop(name)) is not None}
        function(*arguments, tune=lambda tuning: replace(tuning, **given), **values)

    run.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return run
