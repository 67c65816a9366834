"""Code, data, transcripts and tables: cut along what they are made of, and located by it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.documents import Mark, TextKind
from ragforge.domain.strategy import Strategy
from ragforge.ingest.split import code, lines
from tests.unit.ingest.split.split_support import assert_tiles, split_text

SMALL = Strategy(leaf_min=30, leaf_max=80, section_min=10, parent_min=150, parent_max=300)
MANY = settings(max_examples=50, deadline=None)
SEEDS = st.integers(0, 10**9)

PYTHON = '''"""About
class of things (no definition)
"""
import os

@decorate
class Foo(Bar):
    """Doc."""

    # Says what it is.
    @property
    def bar(self) -> int:
        def inner():
            pass
        return 1

def top():
    pass

if __name__ == "__main__":
    top()
'''
JAVASCRIPT = """/**
 * Adds.
 */
export default async function add(a, b) {
  return a + b;
}

export const mul = (a, b) => a * b;

class Foo extends Bar {
  constructor(x) {
    if (x) {
      go(x);
    }
  }
}
"""
GO = "package x\n\n// Server serves.\ntype Server struct {\n}\n\n// Run runs.\nfunc (s *Server) Run(x int) error {\n}\n"
RUST = (
    "#[derive(Debug)]\npub struct Foo<T> {\n}\n\nimpl<T> Show for Foo<T> {\n    pub fn new(x: T) -> Self {\n    }\n}\n"
)
JAVA = """package a.b;

/** Doc. */
@Service
public class Foo implements Bar {
    private int x = call(1);

    @Override
    public List<String> names(int a) throws IOException {
        for (int i = 0; i < 3; i++) {
        }
    }
}
"""
C = "#include <a.h>\n\nstatic int add(int a, int b)\n{\n    return a + b;\n}\n\nint main(void) {\n    add(1, 2);\n}\n"
SHELL = "set -e\n\nrun() {\n  echo hi\n}\n\nrun\n"
SQL = "CREATE TABLE users (\n  id INT\n);\n\nCREATE OR REPLACE VIEW active AS SELECT 1;\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            PYTHON,
            [("@decorate", "class Foo"), ("# Says what it is.", "Foo.bar"), ("def top():", "top"), ("if __name__", "")],
        ),
        (
            JAVASCRIPT,
            [("/**", "add"), ("export const", "mul"), ("class Foo", "class Foo"), ("constructor", "Foo.constructor")],
        ),
        (GO, [("// Server", "Server"), ("// Run", "Server.Run")]),
        (RUST, [("#[derive", "struct Foo"), ("impl<T>", "impl Foo"), ("pub fn", "Foo.new")]),
        (JAVA, [("/** Doc", "class Foo"), ("@Override", "Foo.names")]),
        (C, [("static int", "add"), ("int main", "main")]),
        (SHELL, [("run()", "run"), ("run", "")]),
        (SQL, [("CREATE TABLE", "users"), ("CREATE OR", "active")]),
    ],
)
def test_definitions_are_found_with_what_stands_right_above(source: str, expected: list[tuple[str, str]]) -> None:
    found = code.scan(source).headings
    assert [".".join(heading.path) for heading in found] == [name for _, name in expected]
    for heading, (begins, _) in zip(found, expected, strict=True):
        assert source[heading.start :].lstrip().startswith(begins)


@pytest.mark.parametrize(
    "line", ["func (" + "a" * 480, "func (" + "a " * 230, "fn " + "(" * 450, "template<" * 50, f"class {' ' * 490}=>"]
)
def test_hostile_lines_of_code_take_no_time(line: str) -> None:
    source = f"{line}\n" * (300_000 // len(line))
    began = time.thread_time()
    code.scan(source)
    assert time.thread_time() - began < 0.5


@pytest.mark.parametrize("scan", [lines.scan_data, lambda text: lines.scan_transcript(text, ())])
def test_a_long_blank_in_a_line_takes_no_time(scan: Callable[[str], object]) -> None:
    text = f"a{' ' * 10_000}b\n" * 30
    began = time.thread_time()
    scan(text)
    assert time.thread_time() - began < 0.5


@given(SEEDS, st.integers(1, 30))
@MANY
def test_code_is_cut_before_definitions_and_says_where_it_is(seed: int, count: int) -> None:
    chance = random.Random(seed)
    parts: list[str] = []
    begins: dict[int, str] = {}
    length = 0
    for number in range(count):
        nested = chance.random() < 0.5
        body = "".join(f"{'    ' * (1 + nested)}value = call({line})\n" for line in range(chance.randint(1, 6)))
        if nested:
            text = f"class Box{number}:\n    size = 1\n\n    # Opens it.\n    def open(self):\n{body}\n"
            begins[length] = f"class Box{number}"
            begins[length + text.index("    # Opens")] = f"Box{number}.open"
        else:
            text = f"@wrap\ndef call{number}(x):\n{body}\n"
            begins[length] = f"call{number}"
        parts.append(text)
        length += len(text)
    source = "".join(parts)
    result = split_text(source, SMALL, TextKind.CODE)
    assert_tiles(source, result)
    for leaf in result.leaves:
        assert leaf.start in begins
        assert leaf.locator.path == (begins[leaf.start],)
        assert leaf.tokens <= 80


def test_a_definition_longer_than_a_leaf_is_cut_at_line_ends() -> None:
    source = "def long():\n" + "    value = call(one, two, three)\n" * 200
    result = split_text(source, kind=TextKind.CODE)
    assert len(result.leaves) > 2
    assert all(leaf.locator.path == ("long",) for leaf in result.leaves)
    assert all(source.startswith("    value", leaf.start) for leaf in result.leaves[1:])


def a_transcript(seed: int, cues: int) -> tuple[str, tuple[Mark, ...]]:
    chance = random.Random(seed)
    text, marks, now, speaker = "", [], 0.0, "Ann"
    for _ in range(cues):
        if chance.random() < 0.3:
            speaker = chance.choice(("Ann", "Bob", "Eve"))
        length = chance.uniform(0.5, 6)
        marks.append(Mark(len(text), start=now, end=now + length, speaker=speaker))
        text += f"{speaker}: " + " ".join(["words"] * chance.randint(1, 25)) + chance.choice(("", ".", "?")) + "\n"
        now += length + chance.uniform(0, 1)
    return text, tuple(marks)


@given(SEEDS, st.integers(1, 120), st.sampled_from([SMALL, Strategy(), Strategy("chars"), Strategy("tokens")]))
@MANY
def test_times_and_speakers_survive(seed: int, cues: int, strategy: Strategy) -> None:
    text, marks = a_transcript(seed, cues)
    ends = [*(mark.offset for mark in marks[1:]), len(text)]
    for leaf in split_text(text, strategy, TextKind.TRANSCRIPT, marks).leaves:
        held = [mark for mark, end in zip(marks, ends, strict=True) if mark.offset < leaf.end and leaf.start < end]
        assert (leaf.locator.start, leaf.locator.end) == (held[0].start, held[-1].end)
        speakers = {mark.speaker for mark in held}
        assert leaf.locator.speaker == (speakers.pop() if len(speakers) == 1 else None)


@given(SEEDS, st.integers(1, 150))
@MANY
def test_transcripts_are_cut_at_cues_only(seed: int, cues: int) -> None:
    text, marks = a_transcript(seed, cues)
    result = split_text(text, SMALL, TextKind.TRANSCRIPT, marks)
    assert_tiles(text, result)
    assert {leaf.start for leaf in result.leaves} <= {mark.offset for mark in marks}
    assert all(leaf.tokens <= 80 for leaf in result.leaves)


def test_turns_are_found_without_marks() -> None:
    text = "[00:01] Ann: Hello there.\n[00:02] Ann: Again.\n\nBob (00:03): Hi.\nand so on\n"
    outline = lines.scan_transcript(text, ())
    assert [text[start:].split("\n")[0] for start in outline.starts] == text.replace("\n\n", "\n").split("\n")[:-1]
    assert list(outline.ranks) == [8, 9, 8, 10]


JSON = '{\n  "name": "x",\n  "parts": [\n    {"a": 1},\n    {"b": 2}\n  ],\n  "end": null\n}\n'
YAML = "# Copyright\n# someone\nname: x\n\n# About the parts.\nparts:\n  - a: 1\n  - b: 2\n'quoted key': y\n"
TOML = 'title = "x"\n\n[server]\nport = 1\n\n[[tool.items]]\na = 2\n'
HEADED = "# Settings\n\nname: x\n\n## More\n\nother: y\n"


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (JSON, [("name",), ("parts",), ("end",)]),
        (YAML, [("name",), ("parts",), ("quoted key",)]),
        (TOML, [("title",), ("server",), ("port",), ("tool.items",), ("a",)]),
        (HEADED, [("Settings",), ("Settings", "name"), ("Settings", "More"), ("Settings", "More", "other")]),
    ],
)
def test_top_level_keys_are_found(text: str, paths: list[tuple[str, ...]]) -> None:
    assert [heading.path for heading in lines.scan_data(text).headings] == paths


def test_data_is_cut_before_keys_with_their_comments() -> None:
    text = "".join(f"# About {number}.\nkey{number}:\n" + "  - value: of it\n" * 6 for number in range(30))
    result = split_text(text, SMALL, TextKind.DATA)
    assert_tiles(text, result)
    assert all(text.startswith("# About", leaf.start) for leaf in result.leaves)
    assert all(leaf.locator.path[0] == f"key{text[leaf.start + 8 :].split('.')[0]}" for leaf in result.leaves)


def test_lines_of_records_are_cut_between_them() -> None:
    text = '{"name": "x", "text": "One. Two. Three."}\n' * 100
    result = split_text(text, SMALL, TextKind.DATA)
    assert len(result.leaves) > 10
    assert all(text.startswith('{"name"', leaf.start) for leaf in result.leaves)


@given(SEEDS, st.integers(1, 200))
@MANY
def test_sheets_are_cut_between_rows_under_their_name(seed: int, rows: int) -> None:
    chance = random.Random(seed)
    header = "| Name | Text |\n| --- | --- |\n"
    row_texts = [f"| n{row} | One. Two! {'word ' * chance.randint(0, 12)}|\n" for row in range(rows)]
    text = f"## Sheet1\n\n{header}{''.join(row_texts)}\n## Sheet2\n\n{header}| a | b |\n"
    result = split_text(text, SMALL, TextKind.TABLE)
    assert_tiles(text, result)
    assert all(text[leaf.start] in "#|" and (leaf.start == 0 or text[leaf.start - 1] == "\n") for leaf in result.leaves)
    for leaf in result.leaves:
        assert leaf.header == (header if text[leaf.start] == "|" else "")
        assert leaf.locator.path[0] in ("Sheet1", "Sheet2")
        assert leaf.tokens <= 80
