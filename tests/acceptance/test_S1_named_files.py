"""S1: files that a question names are in the prompt, whole or packed; always the same ones, in the same words."""

from __future__ import annotations

import re
import shutil
import string
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.domain.answers import Answer, Result
from ragforge.domain.prompts import Injection
from ragforge.errors import UserError
from ragforge.testing.model_server import ModelServer
from tests.forge import open_forge

APP = '[server]\nport = 8125\nname = "husum"\n\n[retry]\ntimeout = 60\n'
HELPERS = "def round_up(price: int) -> int:\n    return -(-price // 10) * 10\n"
RETURNS = "# Returns\n\nA chair can be sent back within 60 days of its delivery. The van collects it.\n"
NOTES = "# Notes\n\nThe port was changed in May, and the timeout in June.\n"
WOODS = [f"{first}{last}" for first in ("oak", "elm", "ash", "fir", "yew") for last in string.ascii_lowercase]
LARGE = "import os\n\n" + "".join(
    f"def {wood}(order):\n    load = order.load * {number}\n    return load + {number}\n\n\n"
    for number, wood in enumerate(WOODS)
)
FILES = {
    "etc/app.toml": APP,
    "shop/util/helpers.py": HELPERS,
    "old/helpers.py": HELPERS.replace("10", "5"),
    "docs/returns.md": RETURNS,
    "docs/notes.md": NOTES,
    "shop/steps.py": LARGE,
    "shop/My Orders.sql": "SELECT * FROM orders;\n",
}


@pytest.fixture
def served() -> Iterator[ModelServer]:
    with ModelServer(reply="It is so [1].") as server:
        yield server


def opened(folder: Path, served: ModelServer, **settings: object) -> Ragforge:
    """The workspace below a folder; named files are all that is done before the model is asked."""
    given = {
        "model__name": "openai-compatible:stub",
        "model__base_url": served.base_url,
        "ask__whole_project_tokens": 0,
        "ask__stages": "inject",
        **settings,
    }
    return open_forge(folder / "workspace", **given)


def filled(folder: Path, paths: Sequence[str] = tuple(FILES)) -> Path:
    """A folder with the files, and a workspace that took them in, in this order."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(FILES[path])
    with open_forge(folder / "workspace") as forge:
        assert not forge.add([folder / path for path in paths], project="p").failed
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files and a workspace that no test changes."""
    return filled(tmp_path_factory.mktemp("named"))


@pytest.fixture
def forge(folder: Path, served: ModelServer) -> Iterator[Ragforge]:
    with opened(folder, served) as forge:
        yield forge


def injected(prompt: str) -> list[str]:
    """What stands in ❖ FILES, file by file, as the model got it."""
    _, _, section = prompt.partition("## ❖ FILES\n")
    marker = re.search(r"<data-(\w+) file 1>", section)
    if marker is None:
        return []
    return re.findall(rf"<data-{marker[1]} file \d+>\n(.*?)\n</data-{marker[1]}>", section, re.DOTALL)


def named(result: Result) -> dict[str, Injection]:
    return {file.name: file.how for file in result.account.files}


# -- which file is meant


@pytest.mark.parametrize(
    ("question", "name", "text"),
    [
        ("Which port does app.toml set?", "app.toml", APP),
        ("Which port does `app.toml` set?", "app.toml", APP),
        ("Which port does etc/app.toml set?", "app.toml", APP),
        ("Which port does ETC\\App.toml set?", "app.toml", APP),
        ("Which port does “app” set?", "app.toml", APP),
        ('Which port does "app" set?', "app.toml", APP),
        ("What does util/helpers.py round?", "helpers.py", HELPERS),
        ("What does old/helpers.py round?", "helpers.py", FILES["old/helpers.py"]),
        ("What does My Orders.sql select?", "My Orders.sql", FILES["shop/My Orders.sql"]),
        ("What does 'my orders.sql' select?", "My Orders.sql", FILES["shop/My Orders.sql"]),
    ],
)
def test_S1_a_file_is_named_exactly_by_the_end_of_its_path_or_in_quotes(
    forge: Ragforge, served: ModelServer, question: str, name: str, text: str
) -> None:
    result = forge.ask(question, project="p")
    assert named(result) == {name: Injection.FULL}
    [block] = injected(served.calls[-1].prompt)
    head, _, body = block.partition("\n\n")
    assert head.endswith(name) and body == text
    [file] = result.account.files
    assert file.named_as.lower() in question.lower().replace("\\", "/") and not file.left_out


def test_S1_the_end_of_the_path_counts_also_from_the_root_on(forge: Ragforge, folder: Path) -> None:
    result = forge.ask(f"What does {folder / 'old' / 'helpers.py'} round?", project="p")
    assert named(result) == {"helpers.py": Injection.FULL} and "// 5" in result.account.files[0].text


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("What does gone.py do with a chair?", "no file “gone.py” in this project"),
        ("What does src/gone.toml say of a chair?", "no file “src/gone.toml” in this project"),
        ("What does helpers.py round?", "“helpers.py” may mean .*old/helpers.py, .*util/helpers.py: write more of"),
    ],
)
def test_S1_a_name_that_fits_none_or_several_is_said_and_nothing_is_injected(
    forge: Ragforge, served: ModelServer, question: str, told: str
) -> None:
    result = forge.ask(question, project="p")
    assert any(re.search(told, notice) for notice in result.account.notices), result.account.notices
    assert not result.account.files and not any(map(injected, (call.prompt for call in served.calls)))


def test_S1_a_file_that_is_off_is_said_and_not_read(folder: Path, swift_path: Path, served: ModelServer) -> None:
    shutil.copytree(folder / "workspace", swift_path / "workspace")
    with opened(swift_path, served) as forge:
        forge.enable(["app.toml"], on=False, project="p")
        result = forge.ask("Which port does app.toml set, and how is a chair sent back?", project="p")
        assert any("app.toml is switched off: switch it on" in notice for notice in result.account.notices)
        assert not result.account.files and not any("8125" in call.prompt for call in served.calls)
        forge.enable(["app.toml"], on=True, project="p")
        assert named(forge.ask("Which port does app.toml set?", project="p")) == {"app.toml": Injection.FULL}


@pytest.mark.parametrize(
    "question",
    [
        "When can a chair be sent back?",
        "Can a chair be sent back with Node.js or via https://example.com/app.toml?",
        "Can a chair be sent back by mail to shop@app.toml.example?",
        "Is a chair sent back e.g. by van, i.e. collected?",
    ],
)
def test_S1_what_is_no_file_injects_none(forge: Ragforge, served: ModelServer, question: str) -> None:
    prompted = forge.prompt(question, project="p")
    assert not prompted.account.files and not any("file “" in notice for notice in prompted.account.notices)
    assert not injected("\n".join(message.text for message in prompted.prompt.messages))


# -- whole, packed, or a narrower search


def test_S1_prose_is_not_injected_but_narrows_the_search(forge: Ragforge, served: ModelServer) -> None:
    result = forge.ask("When is a chair sent back by returns.md?", project="p")
    assert named(result) == {"returns.md": Injection.NARROWS} and not injected(served.calls[-1].prompt)
    assert {source.name for source in result.account.sources} == {"returns.md"}
    assert "The van collects it" in served.calls[-1].prompt and "8125" not in served.calls[-1].prompt


def test_S1_a_file_that_is_larger_than_the_budget_is_packed_and_it_is_said(folder: Path, served: ModelServer) -> None:
    question = "What does firq in steps.py do?"
    with opened(folder, served, ask__file_tokens=600) as forge:
        result = forge.ask(question, project="p")
        [block] = injected(served.calls[-1].prompt)
        lines = len(LARGE.splitlines())
        [file] = result.account.files
        assert file.how is Injection.PACK and file.tokens <= 600
        assert re.fullmatch(rf"\d+ of {lines} lines", file.left_out)
        assert f"(packed; left out: {file.left_out})" in block
        missing = sum(int(number) for number in re.findall(r"… \((\d+) lines? left out\)", block))
        assert missing == int(file.left_out.split()[0]), "every gap is marked, with its size"
        assert "import os" in block and "def firq(order):" in block
        assert f"return load + {WOODS.index('firq')}" in block, "what the question speaks of, before the rest"
        near = forge.ask("What does shop/steps.py:600 do?", project="p").account.files[0]
        assert LARGE.splitlines()[599] in near.text, "a line that is named is there"
    with opened(folder, served, ask__file_tokens=60_000) as forge:
        assert named(forge.ask(question, project="p")) == {"steps.py": Injection.FULL}
        [block] = injected(served.calls[-1].prompt)
        assert LARGE.strip() in block


def test_S1_small_files_stay_whole_beside_a_large_one(folder: Path, served: ModelServer) -> None:
    with opened(folder, served, ask__file_tokens=600) as forge:
        result = forge.ask("Compare steps.py, app.toml and old/helpers.py.", project="p")
    assert named(result) == {
        "steps.py": Injection.PACK, "app.toml": Injection.FULL, "helpers.py": Injection.FULL,
    }  # fmt: skip
    assert sum(file.tokens for file in result.account.files) <= 600
    heads = [block.partition("\n")[0].split("] ")[1].split(" (")[0] for block in injected(served.calls[-1].prompt)]
    assert heads == ["steps.py", "app.toml", "helpers.py"], "in the order of naming"


def test_S1_a_file_without_room_is_said(folder: Path, served: ModelServer) -> None:
    with opened(folder, served, ask__file_tokens=0) as forge:
        result = forge.ask("Which port does app.toml set?", project="p")
    assert any(notice.startswith("no room for app.toml: ") for notice in result.account.notices)
    assert not result.account.files


def test_S1_a_named_file_can_be_left_out_as_a_stage(forge: Ragforge, served: ModelServer) -> None:
    result = forge.ask("Which port does app.toml set?", project="p", stages=())
    assert not result.account.files and not any(map(injected, (call.prompt for call in served.calls)))


# -- always the same


def test_S1_the_same_question_and_files_give_the_same_bytes(swift_path: Path, served: ModelServer) -> None:
    question = "How do steps.py and app.toml differ from old/helpers.py in weight?"
    sent: list[str] = []
    for number, order in enumerate((tuple(FILES), tuple(reversed(FILES)))):
        with opened(filled(swift_path / str(number), order), served, ask__file_tokens=600) as forge:
            for _ in range(2):
                prompt = forge.ask(question, project="p", lock=True).account.prompt
                assert prompt is not None and len(injected(served.calls[-1].prompt)) == 3
                sent.append(served.calls[-1].prompt.replace(prompt.marker, "MARKER"))
    assert len(sent) == 4 and len(set(sent)) == 1


# -- Exact File Lock


def test_S1_the_lock_skips_retrieval_and_reads_files_of_every_kind(forge: Ragforge, served: ModelServer) -> None:
    result = forge.ask("What do returns.md and app.toml say?", project="p", lock=True)
    assert isinstance(result, Answer) and len(served.calls) == 1
    account = result.account
    assert not account.verdicts and account.evidence is None and "search" not in account.timings
    assert named(result) == {"returns.md": Injection.FULL, "app.toml": Injection.FULL}
    assert {source.name for source in account.sources} == {"returns.md", "app.toml"}
    prompt = served.calls[-1].prompt
    assert RETURNS.strip() in prompt and APP.strip() in prompt and "## Context" not in prompt
    assert "changed in May" not in prompt, "other files are not there"
    assert [citation.name for citation in result.citations] == [account.sources[0].name]


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("When can a chair be sent back?", "name a file of the project"),
        ("What does gone.py do?", "no file “gone.py” in this project"),
        ("What does helpers.py do?", "may mean"),
    ],
)
@pytest.mark.parametrize("model", ["", "offline"])
def test_S1_a_lock_without_a_file_is_refused_before_anything_is_sent(
    forge: Ragforge, served: ModelServer, question: str, told: str, model: str
) -> None:
    with pytest.raises(UserError, match="it names none that can be read") as problem:
        forge.ask(question, project="p", lock=True, model=model)
    assert told in problem.value.hint and not served.calls


def test_S1_offline_the_lock_quotes_the_named_files_alone(forge: Ragforge) -> None:
    result = forge.ask("When was the port changed by notes.md?", project="p", lock=True, model="offline")
    assert isinstance(result, Answer) and result.quoted and "changed in May" in result.text
    assert {citation.name for citation in result.citations} == {"notes.md"}
    assert {verdict.document for verdict in result.account.verdicts} == {"notes.md"}
