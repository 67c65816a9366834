"""Makes docs/images/terminal.svg: commands run for real in a terminal of fixed width, and what it showed.

python tools/make_screenshot.py
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shlex
import shutil
import struct
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "images" / "terminal.svg"
WIDTH = 96
COMMANDS = (
    "ragforge add documents",
    'ragforge search "How long can I return a chair?" -k 2',
    'ragforge ask "How long can I return a chair?"',
    'ragforge ask "Who won the football cup in 1998?"',
)


def run(command: str, folder: Path) -> str:
    """Run a command in a terminal of its own and return all it wrote."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ.update(TERM="xterm-256color", HOME=str(folder), RAGFORGE_MODELS=str(ROOT / ".cache" / "models"))
        _, *arguments = shlex.split(command)
        os.execv(sys.executable, [sys.executable, "-m", "ragforge.interfaces.cli.main", *arguments])  # noqa: S606
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, WIDTH, 0, 0))
    written = b""
    while True:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # the terminal closes with its last user
            break
        if not piece:
            break
        written += piece
    os.waitpid(child, 0)
    return written.decode()


def settled(written: str) -> str:
    """What stands on the screen in the end: lines that were erased again are not there."""
    lines: list[str] = []
    for line in written.replace("\r\n", "\n").split("\n"):
        for _ in range(line.count("\x1b[1A")):
            lines.pop()
        last = re.split(r"\x1b\[2K|\r\x1b\[K", line)[-1]
        lines.append(re.sub(r"\x1b\[\?25[hl]|\x1b\[1A|\r", "", last))
    return "\n".join(lines).rstrip("\n")


def main() -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        samples = ROOT / "src" / "ragforge" / "samples"
        shutil.copytree(samples, folder / "documents", ignore=shutil.ignore_patterns("__pycache__"))
        for command in COMMANDS:
            shown = settled(run(command, folder)).replace(str(folder), "~")
            console.print(Text.assemble(("$ ", "green"), (command, "bold")))
            console.print(Text.from_ansi(shown))
            console.print()
    svg = console.export_svg(title="ragforge", theme=MONOKAI, unique_id="ragforge")
    svg = re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", svg, flags=re.S)  # nothing is fetched to show it
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(svg.replace("Fira Code, monospace", "ui-monospace, Menlo, DejaVu Sans Mono, monospace"))
    print(TARGET.relative_to(ROOT))


if __name__ == "__main__":
    main()
