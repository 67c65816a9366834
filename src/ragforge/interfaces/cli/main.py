"""The `ragforge` command: its tree, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import gc
import inspect
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from ragforge import __version__
from ragforge.domain.cancel import Cancelled
from ragforge.errors import RagforgeError
from ragforge.interfaces.cli import documents, evaluation, explain, files, projects, search, workspace
from ragforge.interfaces.cli.common import root
from ragforge.interfaces.cli.output import json_text, one_line, paint, plain, say
from ragforge.interfaces.cli.stop import STOPPED

UNEXPECTED = 1
UNHEARD = 141
EXIT_CODES = {
    0: "done",
    1: "a fault of ragforge, or an evaluation under its `--fail-under`",
    2: "wrong use: a command line, a setting or a value",
    3: "done, but some files failed",
    4: "no answer: the documents do not hold it",
    5: "not found: a project, a file or a path",
    6: "not allowed",
    7: "a model or embedding service failed",
    8: "the workspace cannot be read or written, or a check failed",
    130: "stopped by Ctrl-C or SIGTERM; the command can be run again (`watch` ends with 0)",
    141: "nobody reads the output any more, as after `| head`",
}


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"ragforge {__version__}\n")
        raise typer.Exit


def build() -> typer.Typer:
    """The whole tree of commands."""
    app = typer.Typer(
        name="ragforge",
        help="Take documents in, find passages in them by words and meaning, and see why each was found. "
        "Answering questions is not part of this version.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    version = typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version")
    root(
        app,
        [
            inspect.Parameter(
                "version", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, version]
            )
        ],
    )
    for group in (files, documents, search, explain, evaluation, projects, workspace):
        group.register(app)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    gc.freeze()  # what is loaded by now stays: the collector need not look at it again
    gc.set_threshold(50_000)  # imports make many objects and no garbage
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # Typer loads Pydantic; its plugins are of no use here
    given = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: `>&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - it stays open until the end
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return _run(given)
    except BrokenPipeError:
        return _leave_unheard()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # Typer's own way to end then
            return _leave_unheard()
        raise


def _leave_unheard() -> int:
    """Whoever read the output has gone: end without a word, also when Python flushes at its end."""
    with suppress(OSError), open(os.devnull, "w") as nowhere:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere.fileno(), stream.fileno())
    return UNHEARD


def _run(given: list[str]) -> int:
    try:
        code = build()(args=given, prog_name="ragforge", standalone_mode=False)
        sys.stdout.flush()
    except RagforgeError as error:
        _report(given, type(error).__name__, error.message, error.hint)
        return error.exit_code
    except typer.TyperException as error:
        return _usage(given, error)
    except (Cancelled, KeyboardInterrupt, typer.Abort):
        return STOPPED
    except BrokenPipeError:
        raise
    except Exception as error:
        if "--debug" in _options_of(given):
            raise
        message = f"{type(error).__name__}: {error}"
        _report(given, "Unexpected", message, "run the command again with --debug to see where")
        return UNEXPECTED
    return code if isinstance(code, int) else 0


def _options_of(arguments: list[str]) -> list[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _usage(given: list[str], error: typer.TyperException) -> int:
    """A wrong command line, said as every other error."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        say(error.format_message())
        return error.exit_code
    hint = f"{context.command_path} --help" if context else "ragforge --help"
    message = error.format_message().replace("Value error, ", "")  # Pydantic's way to begin
    _report(given, "UsageError", message, hint)
    return error.exit_code


def _report(given: list[str], code: str, message: str, hint: str) -> None:
    """One sentence what is wrong, one what to do next; JSON for programs."""
    if "--json" in _options_of(given):
        say(json_text({"error": {"code": code, "message": message, "hint": hint}}))
        return
    say(f"{paint('Error:', 'red', sys.stderr)} {one_line(message)}")
    if hint:
        say(f"{paint('Next:', 'bold', sys.stderr)} {plain(hint)}")


if __name__ == "__main__":
    sys.exit(main())
