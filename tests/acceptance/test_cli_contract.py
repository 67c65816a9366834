"""The contracts of the command line that hold before any workspace is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from ragforge.interfaces.cli.main import COMMANDS, build
from ragforge.interfaces.cli.reference import contexts, pages

HEAVY = ("numpy", "sqlalchemy", "onnxruntime", "tokenizers", "wordllama", "rich.console", "markitdown", "watchfiles")


def ragforge(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    env = {**kept, "HOME": str(folder), "PYTHONUTF8": "1", **variables}
    command = [sys.executable, "-m", "ragforge.interfaces.cli.main", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    script = (
        "import sys, time, io\n"
        "sys.argv = ['ragforge', '--help']; out = sys.stdout; sys.stdout = io.TextIOWrapper(io.BytesIO())\n"
        "from ragforge.interfaces.cli.main import main\n"
        "code = main(); sys.stdout.seek(0); text = sys.stdout.read()\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print(code, time.process_time(), 'Commands' in text, *heavy, file=out)\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(3)
    ]
    assert [run[0] for run in runs] == ["0"] * 3 and [run[2:] for run in runs] == [["True"]] * 3
    assert min(float(run[1]) for run in runs) < 0.3


@pytest.mark.parametrize(
    ("arguments", "imported"),
    [
        (["--help"], set()),
        (["--version"], set()),
        (["mak"], set()),
        (["make", "--help"], {"make"}),
        (["--json", "-w", "x", "config", "show", "--help"], {"workspace"}),
    ],
)
def test_only_the_command_that_is_named_is_imported(arguments: list[str], imported: set[str]) -> None:
    script = (
        "import sys\n"
        "from ragforge.interfaces.cli.main import COMMANDS, main\n"
        f"main({arguments!r})\n"
        "print(*(module for module, _ in COMMANDS.values() if 'ragforge.interfaces.cli.' + module in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.splitlines()[-1].split()) == imported


def test_each_command_is_listed_with_the_first_sentence_of_its_own_help() -> None:
    registered = {}
    for module in {module for module, _ in COMMANDS.values()}:
        app = typer.Typer()
        import_module(f"ragforge.interfaces.cli.{module}").register(app)
        for name, command in get_group(app).commands.items():
            registered[name] = (module, command.get_short_help_str(limit=sys.maxsize))
    assert registered == COMMANDS


def test_the_version_and_shell_completion(tmp_path: Path) -> None:
    assert ragforge("--version", folder=tmp_path).stdout.startswith("ragforge ")
    words = ragforge(
        folder=tmp_path, _RAGFORGE_COMPLETE="complete_bash", COMP_WORDS="ragforge re", COMP_CWORD="1"
    ).stdout
    assert words.split() == ["rebuild", "reindex", "restore"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["ad"], 2, "Did you mean 'add'?"),
        (["ls", "--nothing"], 2, "No such option"),
        (["add"], 2, "Missing argument"),
        (["add", "x", "--confidentiality", "top"], 2, "'public', 'internal', 'confidential', 'restricted'"),
        (["add", "no\x1b[31msuch", "nor this"], 5, "There is no no\\x1b[31msuch, nor this"),
        (["sync", "nowhere"], 5, "There is no folder nowhere"),
        (["config", "show", "--set", "limits.file_byte=1"], 2, "flag --set: limits.file_byte is not a setting"),
        (["--set", "limits.file_bytes", "config", "show"], 2, "has no value"),
        (["label", "x"], 2, "Nothing to change"),
        (["add", ""], 2, "the path is empty"),
        (["sync", ""], 2, "the path is empty"),
        (["watch", ""], 2, "the path is empty"),
        (["-w", "", "ls"], 2, "the path is empty"),
        (["add", ".", "--tag", ""], 2, "A tag is empty"),
        (["label", "x", "--source-type", "two words"], 2, "one word"),
        (["ls", "--status", "foo"], 2, "'--status': 'foo' is not one of"),
        (["sync", sys.executable], 2, "is a file, not a folder"),
        (["ls", "-w", sys.executable], 2, "is a file, not a folder"),
        (["models", "pull", "minilm", "--from", "nowhere"], 5, "there is no folder nowhere"),
        (["log", "rm", "--before"], 2, "Option '--before' requires an argument"),
    ],
)
def test_a_mistake_is_one_sentence_a_next_step_and_an_exit_code(
    tmp_path: Path, arguments: list[str], code: int, says: str
) -> None:
    done = ragforge(*arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    error, step = done.stderr.splitlines()
    assert error.startswith("Error: ") and says in error
    assert step.startswith("Next: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments", [["log", "rm", "--before"], ["log", "rm"], ["ask", "--model"], ["ls", "--nothing"]]
)
def test_a_wrong_command_line_points_to_the_help_of_its_command(tmp_path: Path, arguments: list[str]) -> None:
    command = " ".join(word for word in arguments if not word.startswith("-"))
    assert ragforge(*arguments, folder=tmp_path).stderr.splitlines()[-1] == f"Next: ragforge {command} --help"


def test_models_need_no_workspace(tmp_path: Path) -> None:
    assert "wordllama" in ragforge("models", "ls", folder=tmp_path).stdout
    pulled = ragforge("models", "pull", "wordllama", folder=tmp_path)
    assert (pulled.returncode, pulled.stderr) == (0, "wordllama comes with the package; nothing to pull\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["--help"], ["config", "show"], ["config", "show", "--json"]])
def test_a_reader_who_leaves_early_is_no_fault(tmp_path: Path, arguments: list[str]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "ragforge.interfaces.cli.main", *arguments]
    done = subprocess.run(command, cwd=tmp_path, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_mistake_is_json_for_programs(tmp_path: Path) -> None:
    for arguments, name in ((("ls", "--json", "--nothing"), "UsageError"), (("--json", "add", "gone"), "NotFound")):
        done = ragforge(*arguments, folder=tmp_path)
        error = json.loads(done.stderr)["error"]
        assert error["code"] == name and error["message"] and error["hint"]
        assert done.stdout == ""


def test_every_setting_is_shown_with_its_origin_and_no_secret(tmp_path: Path) -> None:
    workspace = tmp_path / "there"
    workspace.mkdir()
    (workspace / "ragforge.toml").write_text("[jail]\nprocesses = 3\n")
    variables = {"OPENAI_API_KEY": "sk-hidden", "RAGFORGE_LIMITS__FILE_BYTES": "5MB"}
    arguments = ("config", "show", "-w", str(workspace), "--set", "embed.threads=2", "--json")
    done = ragforge(*arguments, folder=tmp_path, **variables)
    shown = json.loads(done.stdout)
    settings = shown["settings"]
    assert settings["jail.processes"] == {"value": 3, "origin": f"{workspace / 'ragforge.toml'}:2"}
    assert settings["limits.file_bytes"] == {"value": 5_000_000, "origin": "environment RAGFORGE_LIMITS__FILE_BYTES"}
    assert settings["embed.threads"] == {"value": 2, "origin": "flag --set"}
    assert settings["store.busy_seconds"]["origin"] == "default"
    assert shown["keys"]["OPENAI_API_KEY"] is True and shown["keys"]["VOYAGE_API_KEY"] is False
    people = ragforge("-w", str(workspace), "config", "show", folder=tmp_path, **variables).stdout
    assert "5 MB" in people and "OPENAI_API_KEY" in people
    assert "sk-hidden" not in done.stdout + people


def test_every_command_takes_the_common_options() -> None:
    tree = {context.command_path: context.command for context in contexts(get_command(build()))}
    found = {path: command for path, command in tree.items() if not isinstance(command, TyperGroup)}
    assert {"ragforge add", "ragforge project rename", "ragforge config show", "ragforge models pull"} <= found.keys()
    for path, command in found.items():
        options = {name for parameter in command.params for name in parameter.opts}
        assert {"--json", "--quiet", "--workspace", "--set", "--debug"} <= options, path
        assert command.help, path
        if path in ("ragforge rm", "ragforge project rm"):
            assert {"--yes", "--dry-run"} <= options


def test_the_reference_pages_are_those_of_this_code() -> None:
    folder = Path(__file__).parents[2] / "docs" / "reference"
    for name, text in pages().items():
        assert (folder / name).read_text(encoding="utf-8") == text, "run: python -m ragforge.interfaces.cli.reference"


def test_a_closed_output_is_no_fault(tmp_path: Path) -> None:
    command = f"{sys.executable} -m ragforge.interfaces.cli.main config show >&-"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
