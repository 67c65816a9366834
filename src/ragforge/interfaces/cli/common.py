"""The options every command takes, before or after its name, and how a command opens the workspace."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ragforge.errors import NotFound, RagforgeError, UserError
from ragforge.interfaces.cli.output import one_line, plain, say

if TYPE_CHECKING:
    from ragforge.app import Ragforge
    from ragforge.settings import Settings

DEFAULT_PROJECT = "default"
_OF_PROJECT = (
    "add|sync|watch|ls|show|rm|on|off|label|search|explain|ask|prompt|chat|make [a-z-]+|log [a-z]+|feedback"
    "|conversation [a-z]+|project rules|project memory|eval [a-z]+|rebuild|reindex|check"
    "|learn capture [a-z]+|learn (?!prune|calibrate)[a-z]+"
    "|discover(?! knowledge)(?: (?:ls|show|say|register|assume|revise|points?|edit|forget|document|progress|undo|org"
    "|rename|rm))?"
)
_STEP = re.compile(
    rf"\bragforge (?:(?P<project>{_OF_PROJECT})"
    r"|project [a-z]+|keys [a-z]+|jobs [a-z]+|learn [a-z]+|discover knowledge|init|doctor|migrate|config show)\b"
    r"(?P<named>(?= -p| --project))?"
)
"""A command in a message that acts on a workspace, and perhaps on one project of it."""


@dataclass(frozen=True, slots=True)
class Common:
    """What was said of the common options, wherever it stood."""

    workspace: Path | None = None
    project: str | None = None
    config: Path | None = None
    settings_given: tuple[str, ...] = ()
    json: bool = False
    quiet: bool = False
    debug: bool = False

    @property
    def project_name(self) -> str:
        return self.project or DEFAULT_PROJECT

    def merged(self, values: Mapping[str, Any]) -> Common:
        """This, with what stood after the command on top."""
        return Common(
            workspace=values["workspace"] or self.workspace,
            project=values.get("project") or self.project,
            config=values["config"] or self.config,
            settings_given=(*self.settings_given, *(values["settings_given"] or ())),
            json=values["json"] or self.json,
            quiet=values["quiet"] or self.quiet,
            debug=values["debug"] or self.debug,
        )

    def settings(self, flags: Mapping[str, Mapping[str, object]] | None = None) -> Settings:
        """Settings from every source; `flags` are the ones a command has of its own."""
        from ragforge.settings import load

        given = dict(_pair(text) for text in self.settings_given)
        return load(self.workspace, config=self.config, flags={"--set": given, **(flags or {})})

    @contextmanager
    def open(
        self,
        *,
        create: bool = False,
        announce: bool = True,
        flags: Mapping[str, Mapping[str, object]] | None = None,
    ) -> Iterator[Ragforge]:
        """The workspace, open until the command is done. Only commands that bring something in may make it."""
        from ragforge.app import Ragforge

        settings = self.settings(flags)
        if settings.workspace.is_file():
            raise UserError(
                f"The workspace {plain(str(settings.workspace))} is a file, not a folder",
                hint="choose a folder with --workspace",
            )
        with Ragforge.open(settings, create=create) as forge:
            if forge.created and announce:
                self.say(f"Made the workspace {plain(str(forge.workspace))}")
            yield forge
            for notice in forge.notices:
                self.say(f"Note: {one_line(notice)}")
            if self.debug:
                counted = (f"{what.replace('_', ' ')} {number:,}" for what, number in forge.counters().items())
                say(f"Counted: {', '.join(counted)}")

    def project_in(
        self,
        forge: Ragforge,
        nothing: str = f"Project {DEFAULT_PROJECT} holds no files",
        begin: str = "ragforge add PATH",
    ) -> str:
        """The project's name. That the usual one was not begun is no mistake: there is just nothing in it."""
        if self.project is None:
            others = [project.slug for project in forge.projects()]
            if DEFAULT_PROJECT not in others:
                named = f", or -p for another project: {', '.join(others[:5])}" if others else ""
                raise NotFound(nothing, hint=f"{begin}{named}")
        return self.project_name

    def begun(self, forge: Ragforge) -> str:
        """The project's name; one that is new begins with what is told."""
        try:
            return forge.project(self.project_name).slug
        except NotFound:
            project = forge.create_project(self.project_name)
            self.say(f"Made project {plain(project.slug)}")
            return project.slug

    def say(self, text: str) -> None:
        """A message that `--quiet` silences and that would only disturb programs."""
        if not self.quiet and not self.json:
            say(self.placed(text))

    def placed(self, text: str) -> str:
        """A message whose commands act where this one did: with the workspace and the project that were given."""
        workspace = f" -w {plain(shlex.quote(str(self.workspace)))}" if self.workspace else ""
        project = f" -p {plain(shlex.quote(self.project))}" if self.project else ""

        def here(step: re.Match[str]) -> str:
            return f"{step[0]}{workspace}{project if step['project'] and step['named'] is None else ''}"

        return _STEP.sub(here, text)


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise UserError(f"--set {plain(text)} has no value", hint="write --set section.name=value")
    return key.strip(), value.strip()


def path_of(text: str) -> Path:
    """A path as it was typed. Nothing at all, as from an unset variable, does not mean the current folder."""
    if not text:
        raise typer.BadParameter("the path is empty")
    return Path(text)


def _project_names() -> list[str]:
    """For the shell's completion: the projects of the usual workspace."""
    from ragforge.app import Ragforge
    from ragforge.settings import load

    try:
        with Ragforge.open(load(), create=False) as forge:
            return [project.slug for project in forge.projects()]
    except RagforgeError:
        return []


def _option(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _options(*, project: bool, hide_rare: bool) -> list[inspect.Parameter]:
    def option(*names: str, **facts: Any) -> Any:
        return typer.Option(*names, show_default=False, **facts)

    workspace = option(
        "--workspace", "-w", metavar="FOLDER", parser=path_of, help="Folder of the workspace [default: ~/ragforge]"
    )
    name = option(
        "--project", "-p", metavar="NAME", help=f"Project [default: {DEFAULT_PROJECT}]", autocompletion=_project_names
    )
    as_json = option("--json", help="Print JSON for programs")
    quiet = option("--quiet", "-q", help="No progress, no messages; errors only")
    config = option(
        "--config", metavar="FILE", parser=path_of, help="Read this TOML file after ragforge.toml", hidden=hide_rare
    )
    given = option("--set", metavar="KEY=VALUE", help="Change one setting, as limits.file_bytes=5MB", hidden=hide_rare)
    debug = option("--debug", help="Show the traceback of an unexpected error, and what was counted", hidden=hide_rare)
    return [
        _option("workspace", Annotated[Path | None, workspace]),
        *([_option("project", Annotated[str | None, name])] if project else []),
        _option("json", Annotated[bool, as_json], False),
        _option("quiet", Annotated[bool, quiet], False),
        _option("config", Annotated[Path | None, config]),
        _option("settings_given", Annotated[list[str] | None, given]),
        _option("debug", Annotated[bool, debug], False),
    ]


class _Command(TyperCommand):
    """A command to whose own help every mistake in its options points, also a value that is missing."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _pointing_to(ctx):
            return super().parse_args(ctx, args)


class _Group(TyperGroup):
    """The same for a group that does something by itself."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _pointing_to(ctx):
            return super().parse_args(ctx, args)


@contextmanager
def _pointing_to(ctx: Any) -> Iterator[None]:
    try:
        yield
    except typer.TyperException as error:
        if getattr(error, "ctx", ctx) is None:
            error.ctx = ctx  # type: ignore[attr-defined]
        raise


def command(app: typer.Typer, name: str, *, project: bool = True) -> Callable[[Callable[..., None]], None]:
    """Register a function whose first parameter is `Common` as a command that takes the common options too."""

    def register(function: Callable[..., None]) -> None:
        _, *own = inspect.signature(function, eval_str=True).parameters.values()
        options = _options(project=project, hide_rare=True)

        def run(ctx: typer.Context, **values: Any) -> None:
            given = {option.name: values.pop(option.name) for option in options}
            _call(function, (ctx.obj or Common()).merged(given), values)

        _dress(run, own, options)
        app.command(name, cls=_Command, help=inspect.getdoc(function))(run)

    return register


def group(function: Callable[..., None]) -> typer.Typer:
    """A group of commands that, where none of them is named, does what the function does, with the options of that."""
    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    options = _options(project=True, hide_rare=True)

    def run(ctx: typer.Context, **values: Any) -> None:
        given = {option.name: values.pop(option.name) for option in options}
        ctx.obj = (ctx.obj or Common()).merged(given)
        if ctx.invoked_subcommand is None:
            _call(function, ctx.obj, values)
        elif misplaced := [each.name for each in own if values[each.name] != each.default]:
            hint = f"write it after {ctx.invoked_subcommand}, if that takes it: {ctx.command_path} --help"
            raise UserError(f"--{misplaced[0]} stands before {ctx.invoked_subcommand}", hint=hint)

    _dress(run, own, options)
    made = typer.Typer(cls=_Group, invoke_without_command=True, subcommand_metavar="[COMMAND] [ARGS]...")
    made.callback(help=inspect.getdoc(function))(run)
    return made


def _call(function: Callable[..., None], common: Common, values: dict[str, Any]) -> None:
    try:
        function(common, **values)
    except RagforgeError as error:
        error.hint = common.placed(error.hint)
        raise


def root(app: typer.Typer, extra: list[inspect.Parameter]) -> None:
    """Let the common options stand before the command, beside `extra` ones that act by their callbacks."""
    options = _options(project=True, hide_rare=False)

    def run(ctx: typer.Context, **values: Any) -> None:
        ctx.obj = Common().merged(values)

    _dress(run, extra, options)
    app.callback()(run)


def _dress(run: Callable[..., None], own: list[inspect.Parameter], options: list[inspect.Parameter]) -> None:
    """Give a function the signature that Typer reads."""
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    run.__signature__ = inspect.Signature([context, *keyword_only, *options])  # type: ignore[attr-defined]
