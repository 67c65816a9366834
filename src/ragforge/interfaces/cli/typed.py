"""What is typed line by line, or comes through a pipe: text to answer, and commands that begin with a slash."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from ragforge.errors import RagforgeError, UserError
from ragforge.interfaces.cli.common import Common
from ragforge.interfaces.cli.output import one_line, plain_text, print_data, print_json, say, say_error, wrapped

_PASTED_SECONDS = 0.05
"""What a terminal hands over within this time of a line was pasted with it: nobody types that fast."""


def is_typed() -> bool:
    """Whether a person is at the terminal."""
    return sys.stdin is not None and sys.stdin.isatty()  # None: closed by the shell


def typed_lines(common: Common, what: str) -> Iterator[str]:
    """What is typed, line by line, until Ctrl-D. Ctrl-C leaves the line, not the talk; `what` is its name.

    Lines that are pasted at a terminal are one message, unless they begin with a command.
    """
    over = False
    while True:
        try:
            if over:
                raise EOFError
            text, over = _typed()
            yield from text.split("\n") if text.startswith("/") else [text]
        except EOFError:
            if is_typed():
                say("")
            return
        except KeyboardInterrupt:
            if not is_typed():
                raise
            common.say(f"\nCtrl-D or /quit ends the {what}")


def _typed() -> tuple[str, bool]:
    """A line, with those that came with it; and whether they end with Ctrl-D."""
    ahead = _is_more(0)  # typed while something else was done: each line is by itself
    lines = [_line("> ")]
    while not ahead and _is_more(_PASTED_SECONDS):
        try:
            lines.append(_line("  "))
        except EOFError:
            return "\n".join(lines), True
    return "\n".join(lines), False


def _is_more(seconds: float) -> bool:
    """Whether the terminal has another line within this time. A pipe is read line by line, so it never has."""
    if not is_typed():
        return False
    with suppress(ImportError, OSError, ValueError), _letters(seconds > 0):  # not every system can tell
        return bool(select.select([sys.stdin], [], [], seconds)[0])
    return False


@contextmanager
def _letters(wanted: bool) -> Iterator[None]:
    """Have the terminal tell of letters too: the last line of what is pasted may have no end yet."""
    if not wanted:
        yield
        return
    import termios

    try:
        before = termios.tcgetattr(sys.stdin)
        by_letter = [*before]
        by_letter[3] &= ~termios.ICANON
        termios.tcsetattr(sys.stdin, termios.TCSANOW, by_letter)
        try:
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSANOW, before)
    except termios.error as problem:  # it was closed; that is no OSError
        raise OSError(*problem.args) from None


def _line(prompt: str) -> str:
    """The prompt is never part of the data: it is on the terminal, or on stderr."""
    if is_typed() and sys.stdout.isatty():
        _edit_lines()
        return input(prompt)
    if is_typed():
        sys.stderr.write(prompt)
        sys.stderr.flush()
        line = _read_typed()
    else:
        line = sys.stdin.buffer.readline() if sys.stdin else b""
    if not line:
        raise EOFError
    return line.decode("utf-8", "replace").rstrip("\r\n")


def _read_typed() -> bytes:
    """Up to the end of a line. The terminal may hand over several at once, and a buffer would hide them from us."""
    data = b""
    while not data.endswith(b"\n") and (got := os.read(sys.stdin.fileno(), 65_536)):
        data += got
    return data


def _edit_lines() -> None:
    """Let `input` edit lines, and take what is pasted as it is: a line's end in it sends nothing."""
    with suppress(ImportError):
        import readline

        if "libedit" not in (readline.__doc__ or "") and os.environ.get("TERM", "dumb") != "dumb":
            readline.parse_and_bind("set enable-bracketed-paste on")  # Python switches it off


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
