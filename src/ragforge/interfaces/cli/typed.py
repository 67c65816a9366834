"""What is typed line by line, or comes through a pipe: text to answer, and commands that begin with a slash."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from ragforge.errors import RagforgeError, UserError
from ragforge.interfaces.cli.common import Common
from ragforge.interfaces.cli.output import one_line, plain_text, print_data, print_json, say, say_error, wrapped


def is_typed() -> bool:
    """Whether a person is at the terminal."""
    return sys.stdin is not None and sys.stdin.isatty()  # None: closed by the shell


def typed_lines(common: Common, what: str) -> Iterator[str]:
    """What is typed, line by line, until Ctrl-D. Ctrl-C leaves the line, not the talk; `what` is its name."""
    while True:
        try:
            yield _line()
        except EOFError:
            if is_typed():
                say("")
            return
        except KeyboardInterrupt:
            if not is_typed():
                raise
            common.say(f"\nCtrl-D or /quit ends the {what}")


def _line() -> str:
    """The prompt is never part of the data: it is on the terminal, or on stderr."""
    if is_typed() and sys.stdout.isatty():
        with suppress(ImportError):
            import readline  # noqa: F401 - `input` edits lines once it is there
        return input("> ")
    if is_typed():
        sys.stderr.write("> ")
        sys.stderr.flush()
    line = sys.stdin.buffer.readline() if sys.stdin else b""
    if not line:
        raise EOFError
    return line.decode("utf-8", "replace").rstrip("\r\n")


def recall_lines(said: Iterable[str]) -> None:
    """What was said before is a key away."""
    if not is_typed():
        return
    with suppress(ImportError):
        import readline

        for each in said:
            readline.add_history(one_line(each))


class Dialogue:
    """Answers lines one after the other. What fails is said, and it goes on."""

    commands: ClassVar[Mapping[str, str]]
    """Each with what it does; `help` and `quit` are among them."""
    text = "a message"
    """What a line is that is no command."""

    def __init__(self, common: Common) -> None:
        self._common = common
        self.failed = 0
        """The exit code of what failed first."""

    def hear(self, line: str) -> bool:
        """Answer what was said or do a command; False when it is over."""
        try:
            if line.startswith("/"):
                return self._do(*line[1:].split(maxsplit=1))
            if line.strip():
                self._answer(line.strip())
        except RagforgeError as error:
            hint = self._common.placed(error.hint)
            say_error(type(error).__name__, error.message, hint, as_json=self._common.json)
            self.failed = self.failed or error.exit_code
        return True

    def _answer(self, text: str) -> None:
        raise NotImplementedError

    def _do(self, name: str = "", rest: str = "") -> bool:
        """A command by its name; False if it ends the talk."""
        if name not in self.commands:
            raise UserError(
                f"there is no command /{name}",
                hint=f"the commands are {', '.join(f'/{each}' for each in self.commands)}; "
                f"{self.text} that begins with / needs a space before it",
            )
        if name != "quit":
            getattr(self, f"_do_{name}")(rest.strip())
        return name != "quit"

    def _do_help(self, rest: str) -> None:
        wide = max(map(len, self.commands)) + 2
        told = [f"/{name:<{wide}}{wrapped(does, wide + 1)}" for name, does in self.commands.items()]
        self._tell({"commands": self.commands}, told)

    def _tell(self, fields: Mapping[str, Any], lines: Sequence[str]) -> None:
        if self._common.json:
            print_json(fields)
        else:
            print_data(plain_text("\n".join(lines)))
