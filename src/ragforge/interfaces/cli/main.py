"""The `ragforge` command: its tree, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import gc
import inspect
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from ragforge import __version__
from ragforge.domain.cancel import Cancelled
from ragforge.errors import RagforgeError
from ragforge.interfaces.cli.common import root
from ragforge.interfaces.cli.output import say, say_error
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
    130: "stopped by Ctrl-C or SIGTERM; the command can be run again (`watch`, `serve` and `worker` end with 0)",
    141: "nobody reads the output any more, as after `| head`",
}
COMMANDS = {
    "add": ("files", "Add files and folders to a project."),
    "sync": ("files", "Make a project mirror a folder: add what is new, replace what changed, remove what is gone."),
    "watch": ("files", "Keep a project the mirror of a folder until Ctrl-C."),
    "ls": ("documents", "List the files of a project."),
    "show": ("documents", "Show one file: its facts, its summary, where it came from, and its chunks."),
    "rm": ("documents", "Remove files for good: bytes, text, chunks, vectors and summary."),
    "on": ("documents", "Let files be used again."),
    "off": ("documents", "Keep files, but do not use them."),
    "label": ("documents", "Change what is said of files; filters use it."),
    "search": ("search", "Find the passages that bear on a question, best first: by its words and by its meaning."),
    "rebuild": (
        "search",
        "Build the indexes of a project anew, from the catalog alone: nothing is read or embedded again.",
    ),
    "ask": ("ask", "Answer a question from the files of a project, with checked citations."),
    "chat": ("chat", "Talk about the files of a project: follow-up questions are understood, and the turns are kept."),
    "prompt": ("prompt", "Show the prompt that `ask` would send, with its tokens and price."),
    "explain": (
        "explain",
        "Show the way of a question: its words, every candidate's way, the context, and whether it would be answered.",
    ),
    "feedback": ("log", "Mark an answer of the log as good or bad."),
    "reindex": ("projects", "Split or embed a project anew."),
    "init": ("workspace", "Make a workspace, with a settings file that explains itself."),
    "doctor": ("workspace", "Tell what works, what is missing and how to get it."),
    "check": ("workspace", "Compare what the workspace holds with what it should hold."),
    "backup": ("backup", "Put everything of the workspace into one file, while it is used."),
    "restore": ("backup", "Make a workspace of a backup."),
    "migrate": ("migrate", "Move the catalog to a Postgres database, or back into the workspace."),
    "export": ("backup", "Write one project to a file that any program can read."),
    "import": ("backup", "Take in a project that `export` wrote, under its own name or that of --project."),
    "conversation": ("conversations", "Conversations: list, show, rename, export and remove them."),
    "log": ("log", "What was asked, and what it took."),
    "make": (
        "make",
        "Make a cited document from a project: blueprint, pdr, workflow, build-plan, or a kind of your own.",
    ),
    "eval": ("evaluation", "Measure how well the right documents are found and questions answered."),
    "learn": (
        "learn",
        "What agents learn: told, embedded at checkpoints, asked for, reviewed, and gone a year later.",
    ),
    "discover": (
        "discover",
        "Be interviewed about a problem and its solution: questions, a register of assumptions, and a cited document.",
    ),
    "mcp": (
        "mcp",
        "Offer this workspace to an assistant, over the Model Context Protocol on standard input and output.",
    ),
    "project": ("projects", "Make, list, change and remove projects."),
    "keys": ("keys", "Keys for those who call a server: make, list and revoke them."),
    "serve": ("serve", "Serve the workspace over HTTP until Ctrl-C."),
    "ui": ("ui", "Show the workspace as a web page, until Ctrl-C."),
    "worker": ("worker", "Do the work that waits in the queue, until Ctrl-C."),
    "jobs": ("jobs", "Long work: list it, look at it, cancel it."),
    "config": ("workspace", "Settings and where they come from."),
    "models": ("workspace", "Models: which are here, and how to get one."),
}
"""Of each command, in the order of the help: the module that registers it, and the first sentence of its own help."""


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"ragforge {__version__}\n")
        raise typer.Exit


class _Commands(TyperGroup):
    """Lists each command by its name and first sentence, and imports the one that is named."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, name and _imported(name), rest


def _imported(name: str) -> Any:
    module, _ = COMMANDS[name]
    app = typer.Typer(rich_markup_mode=None)
    import_module(f"ragforge.interfaces.cli.{module}").register(app)
    return get_group(app).commands[name]


def _nothing() -> None:
    """Stands in for a command that is listed only."""


def build() -> typer.Typer:
    """The tree of commands, each imported when it is named."""
    app = typer.Typer(
        cls=_Commands,
        name="ragforge",
        help="Take documents in, find passages in them by words and meaning, answer questions with checked citations, "
        "and see why each passage was used.",
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
    for name, (_, first_sentence) in COMMANDS.items():
        app.command(name, help=first_sentence)(_nothing)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Without arguments it is the process's own."""
    if arguments is None:
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
    name = context.command_path if context else "ragforge"
    hint = f"{name} --help"
    if (option := getattr(error, "option_name", "")) and any(_is_text(each, option) for each in _options_of(given)):
        hint = f"write -- before a text that begins with a dash, after all options: {name} -- TEXT"
    message = error.format_message().replace("Value error, ", "")  # Pydantic's way to begin
    _report(given, "UsageError", message, hint)
    return error.exit_code


def _is_text(argument: str, option: str) -> bool:
    """Whether an argument that was taken for this option is a sentence."""
    return argument.startswith(option) and len(argument.split()) > 1 and "=" not in argument.split()[0]


def _report(given: list[str], code: str, message: str, hint: str) -> None:
    say_error(code, message, hint, as_json="--json" in _options_of(given))


if __name__ == "__main__":
    sys.exit(main())
