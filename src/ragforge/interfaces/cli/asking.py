"""The options that say how a question is answered, shared by `ask`, `chat` and `prompt`."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragforge.domain.prompts import Shaping
from ragforge.interfaces.cli.common import Common
from ragforge.interfaces.cli.search import Files, MaxConfidentiality, Since, Tags, Types, Until, filters_of
from ragforge.interfaces.cli.tuning import Tune, tuning_options

if TYPE_CHECKING:
    from ragforge.app import AskOptions, Ragforge

Asked = Callable[[Common, "Ragforge"], "AskOptions"]
"""What the options say, once the workspace is open."""

_FILTERS: dict[str, Any] = {
    "file": Files,
    "source_type": Types,
    "tag": Tags,
    "max_confidentiality": MaxConfidentiality,
    "since": Since,
    "until": Until,
}
_PLAIN: dict[str, Any] = {
    "model": Annotated[
        str | None,
        typer.Option(
            "--model", "-m", metavar="NAME", help="provider:model, cheap, balanced, premium, or offline to quote"
        ),
    ],
    "system": Annotated[
        str | None, typer.Option("--system", metavar="TEXT", help="More instructions for the model, beside its persona")
    ],
    "output": Annotated[
        str | None, typer.Option("--output", metavar="TEXT", help="What the answer should look like, in words")
    ],
    "strictness": Annotated[
        float | None,
        typer.Option("--strictness", min=0, max=1, metavar="SHARE", help="0 keeps all passages, 1 only the plainest"),
    ],
    "temperature": Annotated[
        float | None, typer.Option("--temperature", min=0, max=2, metavar="NUMBER", help="How freely the model writes")
    ],
    "max_tokens": Annotated[
        int | None, typer.Option("--max-tokens", min=1, metavar="N", help="Tokens of the answer, at most")
    ],
}
"""Handed on as they are."""
_OTHERS: dict[str, Any] = {
    "agent": Annotated[
        str | None,
        typer.Option("--agent", metavar="NAME", help="Who answers; only from files for this agent or for every agent"),
    ],
    "conversation": Annotated[
        str | None,
        typer.Option("--conversation", "-c", metavar="ID", help="Go on with this conversation: its id, or last"),
    ],
    "lock": Annotated[
        bool | None, typer.Option("--lock", help="Exact File Lock: only the files that the question names")
    ],
    "stages": Annotated[
        str | None,
        typer.Option("--stages", metavar="LIST", help="Some of memory,shape,inject,gate,condense; '' for none"),
    ],
    "stop": Annotated[
        list[str] | None, typer.Option("--stop", metavar="TEXT", help="Where the model stops; may be repeated")
    ],
}
_SHAPE: dict[str, Any] = {
    "intent": Annotated[
        str | None,
        typer.Option("--intent", metavar="NAME", help="What is wanted, such as compare or code [default: as asked]"),
    ],
    "domain": Annotated[
        str | None, typer.Option("--domain", metavar="TEXT", help="The field of the question [default: as asked]")
    ],
    "header": Annotated[
        list[str] | None,
        typer.Option("--header", metavar="TEXT", help="A heading of the answer; may be repeated; '' for none"),
    ],
}
_OPTIONS = {**_PLAIN, **_SHAPE, **_OTHERS, **_FILTERS}


def asking_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options above, and those of a search, in place of its parameter `asked`."""
    signature = inspect.signature(function, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "asked"]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _OPTIONS.items()
    ]
    tune = inspect.Parameter("tune", inspect.Parameter.KEYWORD_ONLY, annotation=Tune)

    @functools.wraps(function)
    def run(*arguments: Any, tune: Tune, **values: Any) -> None:
        given = {name: values.pop(name) for name in _OPTIONS}
        function(*arguments, asked=lambda common, forge: _asked(common, forge, tune, given), **values)

    run.__signature__ = signature.replace(parameters=[*own, *options, tune])  # type: ignore[attr-defined]
    return tuning_options(run)


def _asked(common: Common, forge: Ragforge, tune: Tune, given: dict[str, Any]) -> AskOptions:
    agent, usual = given["agent"] or "", forge.tuning()
    tuning = tune(replace(usual, k=usual.context_chunks))
    options: AskOptions = {
        "filters": filters_of(
            common,
            forge,
            given["file"],
            given["source_type"],
            given["tag"],
            "",
            given["max_confidentiality"],
            given["since"],
            given["until"],
        ),
        "tuning": replace(tuning, context_chunks=tuning.k),  # for an answer, those passages count that it stands on
        "agent": agent,
        "lock": bool(given["lock"]),
        "shaping": Shaping(
            given["intent"] or "", given["domain"] or "", tuple(given["header"]) if given["header"] else None
        ),
        "stop": tuple(given["stop"] or ()),
    }
    if given["stages"] is not None:
        options["stages"] = re.findall(r"[\w-]+", given["stages"])
    if given["conversation"]:
        options["conversation"] = forge.conversation(given["conversation"], project=common.project_in(forge)).id
    plain = {name: given[name] for name in _PLAIN if given[name] is not None}
    return {**options, **plain}  # type: ignore[typeddict-item]
