"""JSON and YAML as readable lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.documents import Parsed, ParseFailure, Reason, TextKind
from ragforge.ingest.parse import registry
from tests.proof import count


def ready(text: str, name: str = "a.json") -> Parsed:
    found = registry.run("data", text.encode(), name)
    assert isinstance(found, Parsed), found
    return found


def failed(text: str, name: str = "a.json") -> ParseFailure:
    found = registry.run("data", text.encode(), name)
    assert isinstance(found, ParseFailure), found
    return found


def test_small_object() -> None:
    parsed = ready('{"name": "Chair", "price": 9.50, "tags": ["oak", "new"], "size": {"w": 1, "h": 2}, "x": null}')
    assert parsed.text == "name: Chair\nprice: 9.50\ntags: [oak, new]\nsize:\n  w: 1\n  h: 2\nx: null"
    assert (parsed.kind, parsed.title) == (TextKind.DATA, "Chair")


def test_records_are_a_table() -> None:
    parsed = ready('[{"sku": "A|1", "stock": true}, {"sku": "B", "note": "two\\nlines"}]')
    assert parsed.text == ("| sku | stock | note |\n| --- | --- | --- |\n| A\\|1 | true |\n| B |  | two lines |")


LARGE = {f"key{number}": number for number in range(10)}


def test_headings_for_large_parts_that_come_last() -> None:
    text = ready(json.dumps({"version": 2, "large": {"x": 1, "inner": LARGE}, "more": LARGE})).text
    assert text.startswith("version: 2\n\n## large\n\nx: 1\n\n### inner\n\nkey0: 0\n")
    assert "\nkey9: 9\n\n## more\n\nkey0: 0\n" in text


def test_keys_keep_their_order() -> None:
    text = ready(json.dumps({"a": 1, "large": {"inner": LARGE, "x": 1}, "z": 2})).text
    assert text.startswith("a: 1\nlarge:\n  inner:\n    key0: 0\n")
    assert text.endswith("    key9: 9\n  x: 1\nz: 2")


def test_an_inner_level_without_headings_under_one_with() -> None:
    text = ready(json.dumps({"large": {"inner": LARGE, "x": 1}})).text
    assert text.startswith("\n## large\n\ninner:\n  key0: 0\n")
    assert text.endswith("\n  key9: 9\nx: 1")


def test_yaml_comments_and_keys_keep_their_order() -> None:
    large = "".join(f"  key{number}: {number}\n" for number in range(10))
    text = ready(
        "# Warehouse settings\nsite: Handewitt\n# Orders paid before this time leave the same day.\n"
        f'cut_off:\n{large}note: "x"\n',
        "a.yaml",
    ).text
    assert text.startswith(
        "#: Warehouse settings\nsite: Handewitt\n#: Orders paid before this time leave the same day.\ncut_off:\n  key0"
    )
    assert text.endswith("  key9: 9\nnote: x")


def test_yaml_opening_comment_stands_above_the_first_heading() -> None:
    large = "".join(f"  key{number}: {number}\n" for number in range(10))
    text = ready(f"# All sites\nnorth:\n{large}# Closed\nsouth:\n{large}", "a.yaml").text
    assert text.startswith("#: All sites\n\n## north\n\nkey0: 0\n")
    assert "\n\n## south\n\n#: Closed\nkey0: 0\n" in text


@pytest.mark.parametrize(
    ("items", "shown"),
    [
        (["oak", "pine"], "a: [oak, pine]"),
        (["one"], "a: [one]"),
        (["Oslo, Norway", "Bonn"], "a:\n  - Oslo, Norway\n  - Bonn"),
        (["x" * 60, "y" * 60], f"a:\n  - {'x' * 60}\n  - {'y' * 60}"),
        (["", "b"], "a:\n  -\n  - b"),
    ],
)
def test_a_list_of_scalars_stays_a_list(items: list[str], shown: str) -> None:
    assert ready(json.dumps({"a": items})).text == shown


def test_nested_lists_and_long_strings() -> None:
    text = ready('{"a": [{"b": [1, 2], "c": "one\\ntwo"}, "x"], "d": [], "e": {}}').text
    assert text == "a:\n  - b: [1, 2]\n    c:\n      one\n      two\n  - x\nd: []\ne: {}"


def test_numbers_as_written() -> None:
    digits = "9" * 10_000
    assert ready(f'{{"big": {digits}, "exact": 0.10, "e": 1E400}}').text == f"big: {digits}\nexact: 0.10\ne: 1E400"


def test_not_a_number_is_flagged_and_duplicates_are_kept() -> None:
    parsed = ready('{"a": NaN, "a": 2}')
    assert parsed.text == "a: NaN\na: 2"
    assert parsed.notes == ("NaN is no JSON number: kept as written",)


@pytest.mark.parametrize("text", ["[]", "{}", '""', '[""]', " [ ] ", '[" ", {}]'])
def test_without_words_is_empty(text: str) -> None:
    assert failed(text).reason is Reason.EMPTY


@pytest.mark.parametrize("text", ["null", "0", '"x"', "[null]", '{"a":[]}', '{"":0}', "\ufeff[1]"])
def test_small_but_not_empty(text: str) -> None:
    assert ready(text).text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[" * 100_000, "a.json"),
        ('{"a":' * 100_000, "a.json"),
        ("[" * 150 + "]" * 150, "a.json"),
        ("[" * 100_000, "a.yaml"),
        ("- " * 5_000 + "x", "a.yaml"),
    ],
)
def test_deep_nesting_is_refused(text: str, name: str) -> None:
    found = failed(text, name)
    assert found.reason is Reason.HOSTILE
    assert "deep" in found.message


def test_nesting_within_bounds() -> None:
    assert "x" in ready('{"a":[' * 45 + '"x"' + "]}" * 45).text


def test_invalid_json_is_kept_as_text() -> None:
    parsed = ready('{"a": 1,\n "b": oops,\n}')
    assert parsed.text == '{"a": 1,\n "b": oops,\n}'
    assert parsed.notes == ("not valid JSON: line 2: Expecting value; kept as plain text",)


def test_json_lines() -> None:
    assert ready('{"a": 1, "b": 2}\n{"a": 3, "b": 4}\n', "a.jsonl").text.endswith("| 1 | 2 |\n| 3 | 4 |")
    parsed = ready('{"a": 1}\n{"b": {"c": 2}}\nbroken\n', "a.ndjson")
    assert parsed.text == "a: 1\n\nb:\n  c: 2\n\nbroken"
    assert parsed.notes == ("1 line(s) are not valid JSON, the first is line 3; kept as text",)


def test_yaml_scalars_as_written() -> None:
    text = "when: 2024-01-01\nyes: on\noctal: 0777\nnothing:\nquoted: 'it''s'\nfloat: 1.10\n"
    assert ready(text, "a.yaml").text == "when: 2024-01-01\nyes: on\noctal: 0777\nnothing:\nquoted: it's\nfloat: 1.10"


def test_yaml_comments_stay_with_what_they_explain() -> None:
    text = "# Service\nservice:\n  replicas: 3  # less at night\n  script: |\n    # kept\n    run\n"
    text += "# Last\nlist:\n  # one\n  - a\n"
    assert ready(text, "a.yml").text == (
        "#: Service\nservice:\n  replicas: 3  # less at night\n  script:\n    # kept\n    run\n"
        "#: Last\nlist:\n  - a  # one"
    )


def test_yaml_documents_anchors_and_tags() -> None:
    text = "--- !app/thing\na: &x [1, 2]\nb: *x\nc: !Ref Foo\n? [k1, k2]\n: v\n---\nsecond\n"
    assert ready(text, "a.yaml").text == "!app/thing:\n  a: [1, 2]\n  b: [1, 2]\n  c: !Ref Foo\n  [k1, k2]: v\n\nsecond"


def test_yaml_aliases_are_bounded() -> None:
    rows = ["a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    rows += [
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    found = failed("\n".join(rows), "laughs.yaml")
    assert found.reason is Reason.HOSTILE
    assert "aliases" in found.message


def test_yaml_alias_of_itself() -> None:
    assert ready("a: &a [*a, x]", "a.yaml").text == "a: [*a, x]"


def test_yaml_runs_no_code() -> None:
    text = ready('!!python/object/apply:os.system ["echo hi"]', "a.yaml").text
    assert text == "- echo hi"


def test_invalid_yaml_is_kept_as_text() -> None:
    parsed = ready("a: [1, 2\nb: }\n", "a.yaml")
    assert parsed.text == "a: [1, 2\nb: }\n"
    assert parsed.notes[0].startswith("not valid YAML: line 2: ")


@pytest.mark.parametrize(
    "text",
    [
        '[{"text": "Hello there", "start": 0.5, "duration": 2.0}, {"text": "again", "start": 2.5, "duration": 1}]',
        '{"events": [{"tStartMs": 500, "dDurationMs": 2000, "segs": [{"utf8": "Hello "}, {"utf8": "there"}]},'
        ' {"tStartMs": 900}, {"tStartMs": 2500, "dDurationMs": 1000, "segs": [{"utf8": "again"}]}]}',
        '{"text": "all", "segments": [{"start": 0.5, "end": 2.5, "text": " Hello there"},'
        ' {"start": 2.5, "end": 3.5, "text": " again"}]}',
    ],
)
def test_transcripts_are_told_by_their_shape(text: str) -> None:
    parsed = ready(text)
    assert (parsed.kind, parsed.text) == (TextKind.TRANSCRIPT, "Hello there\nagain\n")
    assert [(mark.start, mark.end) for mark in parsed.marks] == [(0.5, 2.5), (2.5, 3.5)]


def test_events_of_something_else_are_no_transcript() -> None:
    assert ready('{"events": [{"name": "fair", "start": "2024-01-01"}, {"name": "ball"}]}').kind is TextKind.DATA


def test_notebook() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {"cell_type": "code", "source": "1 + 1", "outputs": [{"data": {"text/plain": ["2"], "image/png": "iVBOR"}}]},
        {"cell_type": "code", "source": "print(3)", "outputs": [{"output_type": "stream", "text": "3\n"}]},
    ]
    text = ready(json.dumps({"cells": cells, "nbformat": 4, "metadata": {}}), "a.ipynb").text
    assert text == "# Title\nwords\n\n```\n1 + 1\n```\n\n```\n2\n```\n\n```\nprint(3)\n```\n\n```\n3\n```"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=count(26, 80), deadline=None)
@given(JSON, st.sampled_from(["a.json", "a.yaml"]))
def test_every_valid_document_is_ready_or_empty(value: object, name: str) -> None:
    found = registry.run("data", json.dumps(value).encode(), name)
    assert isinstance(found, Parsed) or found.reason is Reason.EMPTY


@settings(max_examples=count(26, 80), deadline=None)
@given(st.text(alphabet='{}[]:,"\\-#&*!|> \n1ab', max_size=40), st.sampled_from(["a.json", "a.yaml"]))
def test_no_text_breaks_the_reader(text: str, name: str) -> None:
    found = registry.run("data", text.encode(), name)
    assert isinstance(found, Parsed) or found.reason in (Reason.EMPTY, Reason.HOSTILE)


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,6}", fullmatch=True), st.from_regex(r"[A-Z]{1,9}", fullmatch=True), min_size=1
    )
)
def test_every_key_and_value_reappears(value: dict[str, str]) -> None:
    text = ready(json.dumps(value)).text
    assert text.split("\n") == [f"{key}: {item}" for key, item in value.items()]
