"""Files named in a prompt: found or told, whole or packed, always the same."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.assemble.inject import Injected, Named, Outcome, injected, named_files, packed
from ragforge.domain.library import Document, Labels, Source, Status
from ragforge.domain.prompts import Injection
from tests.proof import count

NOW = datetime(2025, 1, 1, tzinfo=UTC)


def document(path: str, *, on: bool = True, status: Status = Status.READY, mime: str = "text/plain") -> Document:
    name = path.rpartition("/")[2]
    source = Source(f"/home/ada/{path}", name, 10, 0, "sha")
    return Document(
        id=path, project="p", name=name, status=status, labels=Labels(), enabled=on, type="text", mime=mime, size=10,
        sha256="sha", version="v", title=None, summary="", notes=(), characters=10, tokens=3, chunks=1, problem=None,
        sources=(source,), created_at=NOW, updated_at=NOW,
    )  # fmt: skip


SHELF = [
    document("src/app.py", mime="text/x-python"),
    document("src/util/io.py", mime="text/x-python"),
    document("tests/util/io.py", mime="text/x-python"),
    document("settings.toml"),
    document(".env"),
    document("Makefile", mime="text/x-makefile"),
    document("docs/guide.md", mime="text/markdown"),
    document("docs/Price List.pdf", mime="application/pdf"),
    document("old/legacy.py", on=False),
    document("broken.json", status=Status.FAILED),
    document("README.md", mime="text/markdown"),
]


def words(text: str) -> int:
    return len(text.split())


def outcomes(prompt: str) -> list[tuple[str, Outcome, tuple[str, ...]]]:
    return [
        (one.named_as, one.outcome, tuple(found.id for found in one.documents)) for one in named_files(prompt, SHELF)
    ]


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ("Explain app.py please", "src/app.py"),
        ("Why does src/app.py fail?", "src/app.py"),
        ("Why does `src/app.py` fail?", "src/app.py"),
        (r"Why does .\src\app.py fail?", "src/app.py"),
        ("See /home/ada/src/app.py.", "src/app.py"),
        ("What is in “settings.toml”?", "settings.toml"),
        ("(settings.toml, that is)", "settings.toml"),
        ("What is in SETTINGS.TOML?", "settings.toml"),
        ("Which targets has the Makefile?", "Makefile"),
        ("What does .env set?", ".env"),
        ("What does `app` do?", "src/app.py"),
        ("What does 'README' say?", "README.md"),
        ("don't skip 'app.py', it's mine", "src/app.py"),
        ("Summarise Price List.pdf", "docs/Price List.pdf"),
        ('Summarise the "price list"', "docs/Price List.pdf"),
        ("Compare src/util/io.py", "src/util/io.py"),
    ],
)
def test_a_named_file_is_found(prompt: str, found: str) -> None:
    assert [(outcome, ids) for _, outcome, ids in outcomes(prompt)] == [(Outcome.ONE, (found,))]


@pytest.mark.parametrize(
    "prompt",
    [
        "What does the app do?",
        "Read the readme of Node.js at https://example.com/app.py or mail app.py@example.com",
        "Is version 1.2.3 good, e.g. for U.S. users? Yes.No?",
        "Explain io",
        "I said “hello there” to the app",
        "",
    ],
)
def test_what_names_no_file_finds_none(prompt: str) -> None:
    assert outcomes(prompt) == []


def test_several_of_one_name_are_told_and_none_is_taken() -> None:
    ((name, outcome, ids),) = outcomes("Fix io.py")
    assert (name, outcome, ids) == ("io.py", Outcome.AMBIGUOUS, ("src/util/io.py", "tests/util/io.py"))
    result = injected("Fix io.py", named_files("Fix io.py", SHELF), lambda _: "x", 100, words)
    assert result.files == ()
    assert "src/util/io.py" in result.told[0]
    assert "tests/util/io.py" in result.told[0]


@pytest.mark.parametrize(
    ("prompt", "outcome", "words"),
    [
        ("Explain missing.py", Outcome.MISSING, "no file “missing.py”"),
        ("Explain conf/missing.yaml", Outcome.MISSING, "no file “conf/missing.yaml”"),
        ("Explain `Missing.js`", Outcome.MISSING, "no file “Missing.js”"),
        ("Explain legacy.py", Outcome.OFF, "switched off"),
        ("Explain broken.json", Outcome.UNREADABLE, "could not be read"),
    ],
)
def test_what_cannot_be_taken_is_told(prompt: str, outcome: Outcome, words: str) -> None:
    (named,) = named_files(prompt, SHELF)
    assert named.outcome is outcome
    assert words in named.told()


def test_a_line_is_named_with_its_file() -> None:
    (named,) = named_files("What is wrong at app.py:42?", SHELF)
    assert (named.named_as, named.line) == ("app.py", 42)


def test_each_file_once_in_the_order_of_naming() -> None:
    assert [ids for *_, ids in outcomes("settings.toml, `app.py`, src/app.py and settings.toml")] == [
        ("settings.toml",),
        ("src/app.py",),
    ]


def inject(prompt: str, texts: dict[str, str], budget: int, *, lock: bool = False) -> Injected:
    return injected(prompt, named_files(prompt, SHELF), lambda found: texts[found.id], budget, words, lock=lock)


def test_code_is_whole_prose_narrows_and_the_lock_takes_both() -> None:
    texts = {"src/app.py": "def main(): ...", "docs/guide.md": "# Guide"}
    free = inject("Does app.py follow guide.md?", texts, 100)
    assert [(file.name, file.how, file.text) for file in free.files] == [
        ("app.py", Injection.FULL, "def main(): ..."),
        ("guide.md", Injection.NARROWS, ""),
    ]
    locked = inject("Does app.py follow guide.md?", texts, 100, lock=True)
    assert [file.how for file in locked.files] == [Injection.FULL, Injection.FULL]


LONG = "\n".join(
    ["import os", "", *(f"def part_{n}(a, b):\n    total = a + b\n    return total * {n}\n" for n in range(200))]
)


def test_a_long_file_is_packed_with_what_the_prompt_asks_for() -> None:
    result = inject("What does part_150 in app.py return?", {"src/app.py": LONG}, 200)
    (file,) = result.files
    assert file.how is Injection.PACK
    assert file.tokens == words(file.text) <= 200
    assert file.text.startswith("import os")
    assert "return total * 149" in file.text or "def part_150" in file.text
    assert "… (" in file.text
    assert "lines" in file.left_out


def test_the_named_line_is_in_the_pack() -> None:
    result = inject("app.py:603 fails", {"src/app.py": LONG}, 200)
    assert LONG.splitlines()[602] in result.files[0].text


def test_small_files_leave_their_room_to_large_ones() -> None:
    texts = {"src/app.py": LONG, "settings.toml": "debug = true"}
    large, small = inject("app.py settings.toml", texts, 300).files
    assert small.how is Injection.FULL
    assert large.how is Injection.PACK
    assert 200 < large.tokens <= 297


def test_no_room_is_told() -> None:
    result = inject("app.py", {"src/app.py": LONG}, 3)
    assert result.files == ()
    assert "no room for app.py" in result.told[0]


@settings(max_examples=count(50, 150), deadline=None)
@given(st.text(max_size=400), st.text(max_size=60), st.integers(0, 120), st.none() | st.integers(0, 40))
def test_a_pack_keeps_to_its_budget_and_is_always_the_same(
    text: str, prompt: str, budget: int, line: int | None
) -> None:
    pack, left_out = packed(text, prompt, budget, words, line=line)
    assert (pack, left_out) == packed(text, prompt, budget, words, line=line)
    assert words(pack) <= budget
    lines = text.splitlines()
    assert all(part in lines or part.startswith("… (") for part in pack.split("\n") if pack)


piece = st.sampled_from(
    ["app.py", "`", '"', "'", "src/", "io.py", ":42", " ", "README", "Price List.pdf", ".", "\\", "“", "”", "x"]
)


@settings(max_examples=count(66, 200), deadline=None)
@given(st.lists(piece | st.text(max_size=5), max_size=20).map("".join))
def test_any_prompt_gives_files_of_the_shelf_in_any_order_of_it(prompt: str) -> None:
    named = named_files(prompt, SHELF)
    assert named == named_files(prompt, SHELF[::-1])
    for one in named:
        assert set(one.documents) <= set(SHELF)
        assert (len(one.documents) > 1) == (one.outcome is Outcome.AMBIGUOUS)
        assert (not one.documents) == (one.outcome is Outcome.MISSING)
        assert isinstance(one, Named)


@pytest.mark.parametrize(
    "part", ["a", "a.", "a/", "'", "`x", "app.py ", "x://", "a@", "…", "“", "a@a.", "w.", "no-such.py "]
)
def test_a_huge_prompt_is_quick(part: str) -> None:
    prompt = part * (100_000 // len(part))
    shelf = [document(f"src/module_{n}/file {n}.py") for n in range(1_000)] + SHELF
    began = time.thread_time()
    named = named_files(prompt, shelf)
    assert time.thread_time() - began < 1.0
    assert len(named) <= 50


def test_a_huge_file_is_packed_quickly() -> None:
    text = "\n".join(f"value_{n} = {n}  # note" for n in range(50_000)) + "\n" + "x" * 1_000_000
    began = time.thread_time()
    pack, left_out = packed(text, "What is value_49999?", 500, words)
    assert time.thread_time() - began < 2.0
    assert "value_49999 = 49999" in pack
    assert left_out
