"""A text in the user's own editor: $VISUAL, $EDITOR, or one that is there."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragforge.errors import UserError
from ragforge.interfaces.cli.output import plain

_USUAL = ("editor", "nano", "vi")


def edit(text: str, name: str) -> str:
    """The text as it was saved. `name` is what the editor shows; the file is gone afterwards."""
    command = _editor()
    with tempfile.TemporaryDirectory(prefix="ragforge-") as folder:
        file = Path(folder, name)
        file.write_bytes(text.encode())
        try:
            with _interrupts_are_the_editors():
                ended = subprocess.run([*command, str(file)], check=False).returncode
        except OSError as problem:
            raise UserError(
                f"the editor {plain(command[0])} cannot be started: {problem.strerror}",
                hint="set EDITOR to the editor you use, such as EDITOR=nano",
            ) from None
        if ended:
            raise UserError(f"the editor ended with {ended}", hint="nothing was used; run the command again")
        return _saved(file)


@contextmanager
def _interrupts_are_the_editors() -> Iterator[None]:
    """Ctrl-C means something to an editor, and must not end what waits for it."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _editor() -> list[str]:
    given = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        command = shlex.split(given)
    except ValueError:
        raise UserError(f"EDITOR is no command: {plain(given)}", hint="set it to one, such as EDITOR=nano") from None
    if command:
        return command
    if found := next(filter(shutil.which, _USUAL), None):
        return [found]
    raise UserError("there is no editor", hint="set EDITOR to the editor you use, such as EDITOR=nano")


def _saved(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise UserError("what was saved is not UTF-8", hint="save it as UTF-8; nothing was used") from None
