"""`init`, `doctor`, `check`, `config show`, `models …`: the workspace and what it runs on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragforge.domain.library import Finding, Progress
from ragforge.domain.sizes import MB, size_text
from ragforge.interfaces.cli.common import Common, command, path_of
from ragforge.interfaces.cli.output import (
    Column,
    one_line,
    paint,
    plain,
    print_data,
    print_json,
    print_table,
)
from ragforge.interfaces.cli.progress import meter
from ragforge.settings import FILE_NAME

if TYPE_CHECKING:
    from ragforge.domain.generation import ModelCard
    from ragforge.domain.models import LanguageModels, LanguageModelState, PulledModel

CHECK_FAILED = 8
_EXAMPLES = "ollama:llama3.2 or openai:gpt-5-mini"


def register(app: typer.Typer) -> None:
    command(app, "init", project=False)(init)
    command(app, "doctor", project=False)(doctor)
    command(app, "check")(check)
    config = typer.Typer(help="Settings and where they come from.", no_args_is_help=True)
    command(config, "show", project=False)(show_config)
    app.add_typer(config, name="config")
    models = typer.Typer(help="Models: which are here, and how to get one.", no_args_is_help=True)
    command(models, "ls", project=False)(list_models)
    command(models, "pull", project=False)(pull_model)
    app.add_typer(models, name="models")


def init(common: Common) -> None:
    """Make a workspace, with a settings file that explains itself. Harmless where one is already."""
    with common.open(create=True, announce=False) as forge:
        created, folder = forge.created, forge.workspace
    if common.json:
        print_json({"workspace": folder, "created": created, "settings": folder / FILE_NAME})
    else:
        said = f"Made the workspace {plain(str(folder))}" if created else f"The workspace {plain(str(folder))} is ready"
        common.say(f"{said}. Next: ragforge add PATH")


def doctor(
    common: Common,
    server: Annotated[
        bool, typer.Option("--server", help="Look at a deployment of several machines: what they share, how each is")
    ] = False,
) -> None:
    """Tell what works, what is missing and how to get it."""
    with common.open(create=True) as forge:
        findings = forge.deployment() if server else forge.doctor()
    _conclude(common, findings)


def check(
    common: Common, repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended")] = False
) -> None:
    """Compare what the workspace holds with what it should hold."""
    with common.open() as forge:
        findings = forge.check(project=common.project, repair=repair)
    _conclude(common, findings)


def _conclude(common: Common, findings: Sequence[Finding]) -> None:
    """Print findings; any that is neither fine nor repaired makes the command fail."""
    failed = [finding for finding in findings if not finding.ok and not finding.repaired]
    if common.json:
        print_json({"ok": not failed, "findings": findings})
    else:
        for finding in findings:
            _print_finding(common, finding)
    if failed:
        raise typer.Exit(CHECK_FAILED)


def _print_finding(common: Common, finding: Finding) -> None:
    mark, colour = _mark(finding)
    print_data(f"{paint(mark, colour)} {one_line(finding.subject)}: {one_line(finding.detail)}")
    if finding.hint and not finding.repaired and (finding.warning or not finding.ok):
        print_data(f"  Next: {one_line(common.placed(finding.hint))}")


def _mark(finding: Finding) -> tuple[str, str]:
    if finding.repaired:
        return "✓ repaired", "yellow"
    if not finding.ok:
        return "✗", "red"
    return ("!", "yellow") if finding.warning else ("✓", "green")


def show_config(common: Common) -> None:
    """Print every setting, its value and where the value came from."""
    from ragforge.settings import FACTS, PROVIDER_KEYS, limit_text

    settings = common.settings()
    keys = {name: name in settings.secrets for name in sorted({*PROVIDER_KEYS, *settings.secrets})}
    if common.json:
        values = {key: {"value": value, "origin": settings.origins[key]} for key, value in settings.values()}
        workspace = {"value": settings.workspace, "origin": settings.origins["workspace"]}
        print_json({"workspace": workspace, "settings": values, "keys": keys})
        return
    rows = [["workspace", str(settings.workspace), settings.origins["workspace"]]]
    for key, value in settings.values():
        shown = (
            limit_text(value)
            if FACTS[key].kind == "size"
            else str(value).lower()
            if isinstance(value, bool)
            else str(value)
        )
        rows.append([key, shown or "(empty)", settings.origins[key]])
    rows += [[name, "set" if is_set else "not set", "provider key"] for name, is_set in keys.items()]
    colours = ["dim" if origin in ("default", "provider key") else "" for _, _, origin in rows]
    print_table((Column("setting"), Column("value", least=12), Column("from", least=12)), rows, colours)


def list_models(common: Common) -> None:
    """List the models that make vectors and those that write answers, and what each lacks. None of them is called."""
    from ragforge.app import Ragforge

    with Ragforge.outside(common.settings()) as forge:
        models, writers = forge.models(), forge.language_models()
    if common.json:
        ollama = {"url": writers.ollama_url, "models": writers.ollama_models}
        print_json({"models": models, "language_models": writers.models, "ollama": ollama})
        return
    columns = (
        Column("name"),
        Column("kind"),
        Column("state"),
        Column("size", align_right=True),
        Column("where", least=20),
    )
    rows = [
        [m.name, m.kind, "here" if m.verified else "missing", size_text(m.size), m.problem or str(m.where or "")]
        for m in models
    ]
    print_table(columns, rows, ["" if model.verified else "dim" for model in models])
    if missing := next((model.name for model in models if not model.verified), None):
        common.say(f"To get it: ragforge models pull {plain(missing)}")
    _print_writers(common, writers)


def _print_writers(common: Common, writers: LanguageModels) -> None:
    """The language models: what each is for, reads and costs, and what it lacks."""
    if writers.models:
        columns = (
            Column("language model"),
            Column("used for", least=8),
            Column("state"),
            Column("reads", align_right=True, dropped=True),
            Column("$ per million", align_right=True, dropped=True),
        )
        print_data()
        rows = [_writer(model) for model in writers.models]
        print_table(columns, rows, ["red" if m.problem and m.used_for else "" for m in writers.models])
    if not any(model.used_for for model in writers.models):
        such = plain(writers.models[0].card.name) if writers.models else _EXAMPLES
        common.say(
            "No language model is chosen: answers quote the documents. "
            f"Next: set model.name in {FILE_NAME}, such as {such}"
        )
    ollama = "does not answer" if writers.ollama_models is None else "answers"
    common.say(f"Ollama {ollama} at {plain(writers.ollama_url)}")


def _writer(model: LanguageModelState) -> list[str]:
    card = model.card
    key = f"{model.key_name} is set" if model.key_name and model.has_key else "no key needed"
    return [
        card.name,
        ", ".join(model.used_for),
        ": ".join(part for part in (model.problem, model.hint) if part) or key,
        f"{card.window:,}" if card.window else "unknown",
        _prices(card),
    ]


def _prices(card: ModelCard) -> str:
    if card.input_price is None or card.output_price is None:
        return "unknown"
    into, out = float(card.input_price), float(card.output_price)
    return f"{into:g} in, {out:g} out" if into or out else "free"


def pull_model(
    common: Common,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model, as `ragforge models ls` writes it")],
    source: Annotated[
        Path | None, typer.Option("--from", metavar="FOLDER", parser=path_of, help="Look in this folder first")
    ] = None,
) -> None:
    """Get a model's weights, verified by their SHA-256."""
    from ragforge.app import Ragforge

    with (
        Ragforge.outside(common.settings()) as forge,
        meter(quiet=common.quiet, lines_on_stdout=False, unit="MB") as shown,
    ):
        pulled = forge.pull_model(
            name,
            source=source,
            progress=lambda what, done, total: shown.show(Progress(what, done // MB, total // MB or None)),
        )
    if common.json:
        print_json({"model": pulled})
    else:
        common.say(_pulled_text(pulled))


def _pulled_text(pulled: PulledModel) -> str:
    name, size = plain(pulled.name), size_text(pulled.size)
    if pulled.source == "package":
        return f"{name} comes with the package; nothing to pull"
    if pulled.source == "present":
        return f"{name} was here already, verified ({size})"
    return f"{name} is here, verified ({size}, from the {plain(pulled.source)})"
