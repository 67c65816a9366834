"""How an answer came about: every candidate ends once, and what is shown is complete, safe and fits the terminal."""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from decimal import Decimal
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.assemble.assemble import assemble, load_templates
from ragforge.domain.answers import Account, Evidence
from ragforge.domain.conversation import Conflict, MemoryVerdict
from ragforge.domain.documents import Locator
from ragforge.domain.generation import Usage
from ragforge.domain.prompts import (
    Condensed,
    InjectedFile,
    Injection,
    PromptParts,
    Shape,
    Source,
    Statement,
    SuperPrompt,
)
from ragforge.domain.retrieval import Degraded, Stage, Verdict
from ragforge.interfaces.cli.why import print_why
from ragforge.interfaces.fields.explained import CUT, PROMPT, fates, why_fields
from ragforge.interfaces.records import json_text
from ragforge.interfaces.words import evidence_text
from tests.proof import count

SHAPE = Shape("How long can a chair be returned?", "lookup", reason="it opens the conversation")
FOUND = "found by words"
UNIQUE = "repeats no better one"


def verdict(stage: Stage, chunk: str, kept: bool = True, reason: str = "", score: float = 0.5) -> Verdict:
    return Verdict(stage, chunk, f"{chunk}.md", Locator(("Returns", chunk)), kept, reason, score)


def source(number: int, *chunks: str, text: str = "A chair may be returned.", document: str = "") -> Source:
    name = document or chunks[0]
    return Source(number, chunks[0], chunks, name, f"{name}.md", Locator(), "sum", 0.5, text, 6)


def account(*verdicts: Verdict, sources: Sequence[Source] = (), shape: Shape = SHAPE, **fields: Any) -> Account:
    return Account("how long", shape, tuple(sources), verdicts=verdicts, **fields)


def searched(*chunks: str) -> list[Verdict]:
    """What every candidate has behind it before it is judged."""
    return [
        *(verdict(Stage.FUSE, chunk, reason=FOUND) for chunk in chunks),
        *(verdict(Stage.DEDUPE, chunk, reason=UNIQUE) for chunk in chunks),
    ]


def prompt_of(*sources: Source, context: Condensed | None = None, window: int | None = None) -> SuperPrompt:
    parts = PromptParts("How long?", SHAPE, sources=sources, condensed=context)
    return assemble(parts, load_templates(), lambda text: len(text.split()), window, "5f0c9a1be2d87734", sentinel="NO")


def ends(told: Account) -> dict[str, tuple[bool, str, str]]:
    return {fate.chunk: (fate.kept, fate.stage, fate.reason) for fate in fates(told)}


def shown(told: Account, width: int | None = None) -> str:
    printed = io.StringIO()
    with patch.dict("os.environ", COLUMNS="" if width is None else str(width)), redirect_stdout(printed):
        print_why(told)
    return printed.getvalue()


# -- where a candidate ends


def test_each_candidate_ends_at_the_stage_that_had_the_last_word() -> None:
    told = account(
        *(verdict(Stage.FUSE, chunk, reason=FOUND) for chunk in "abcde"),
        *(verdict(Stage.DEDUPE, chunk, reason=UNIQUE) for chunk in "acde"),
        verdict(Stage.DEDUPE, "b", False, "the same as a"),
        verdict(Stage.GATE, "a", reason="bears"),
        verdict(Stage.GATE, "c", False, "no bearing"),
        verdict(Stage.GATE, "d", reason="bears"),
        verdict(Stage.WINDOW, "a", reason="in the context"),
        verdict(Stage.WINDOW, "d", False, "no room"),
        sources=[source(1, "a")],
        model="stub",
    )
    assert ends(told) == {
        "a": (True, "window", "in the context"),
        "b": (False, "dedupe", "the same as a"),
        "c": (False, "gate", "no bearing"),
        "d": (False, "window", "no room"),
        "e": (False, CUT, "beyond the best 3"),
    }
    assert [fate.source for fate in fates(told)] == [1, 0, 0, 0, 0]


def test_without_a_gate_the_cut_counts_what_became_a_source() -> None:
    told = account(*searched("a", "b", "c"), sources=[source(1, "a"), source(2, "b")])
    assert ends(told)["c"] == (False, CUT, "beyond the best 2") and ends(told)["a"] == (True, "dedupe", UNIQUE)


def test_what_was_removed_since_it_was_found_ends_at_the_window() -> None:
    told = account(*searched("a"), verdict(Stage.GATE, "a", reason="bears"), model="stub")
    assert ends(told) == {"a": (False, "window", "replaced or removed since it was found")}


def test_what_a_stage_dropped_is_kept_where_all_of_its_file_is_read() -> None:
    dropped = [*searched("a"), verdict(Stage.GATE, "a", False, "no bearing")]
    file = InjectedFile("a", "a.py", Injection.FULL, "timeout = 60", 4, "a.py")
    told = account(*dropped, sources=[source(1, "a", text=file.text)], files=(file,), model="stub")
    kept, stage, reason = ends(told)["a"]
    assert kept and stage == PROMPT and reason.startswith("all of its file is there") and "no bearing" in reason
    assert ends(replace(told, model=""))["a"] == (False, "gate", "no bearing"), "without a model no file is read whole"


def test_a_source_that_the_prompt_does_not_hold_was_not_kept() -> None:
    sources = [replace(source(1, "a"), score=0.9), source(2, "b", text="Mattresses are another matter. " * 40)]
    small = prompt_of(*sources, window=len(" ".join(m.text for m in prompt_of(sources[0]).messages).split()) + 60)
    assert [each.number for each in small.sources] == [1]
    told = account(*searched("a", "b"), sources=sources, prompt=small, model="stub")
    assert ends(told) == {"a": (True, "dedupe", UNIQUE), "b": (False, PROMPT, "no room")}
    uncited = prompt_of(*sources, context=Condensed((Statement("A chair may be returned.", (1,)),)))
    assert ends(replace(told, prompt=uncited))["b"] == (False, PROMPT, "no condensed statement stands on it")


CHUNKS = [f"c{number}" for number in range(8)]


@settings(max_examples=count(66, 200), deadline=None)
@given(st.data())
def test_every_candidate_ends_once_and_is_kept_exactly_if_it_is_read(data: st.DataObject) -> None:
    """Random ways through the stages, each ending where it is dropped."""
    verdicts: list[Verdict] = []
    alive = data.draw(st.permutations(CHUNKS))
    for stage in Stage:
        if stage is Stage.SEARCH or (stage in (Stage.RERANK, Stage.GATE, Stage.WINDOW) and data.draw(st.booleans())):
            continue
        late = data.draw(st.integers(0, len(alive))) if stage is Stage.GATE else len(alive)
        told = [verdict(stage, chunk, stage is Stage.FUSE or data.draw(st.booleans()), "so") for chunk in alive[:late]]
        verdicts += told
        alive = [each.chunk for each in told if each.kept]
    read = [source(number, chunk) for number, chunk in enumerate(alive, 1)]
    told_of = fates(account(*verdicts, sources=read, model=data.draw(st.sampled_from(["", "stub"]))))
    assert sorted(fate.chunk for fate in told_of) == sorted(CHUNKS)
    assert (
        {fate.chunk for fate in told_of if fate.kept} == set(alive) == {fate.chunk for fate in told_of if fate.source}
    )
    for fate in told_of:
        dropped = [each for each in fate.way if not each.kept]
        assert fate.reason and (fate.stage == CUT or any(each.stage == fate.stage for each in fate.way))
        assert fate.kept or fate.stage in (CUT, *(each.stage for each in dropped))


# -- for people


def full() -> Account:
    """An account with something of everything."""
    sources = (source(1, "a"), source(2, "b"))
    statements = Condensed((Statement("A chair may be returned.", (1,)),), (Statement("Only with its feet.", (2,)),))
    return account(
        *searched("a", "b", "c", "d"),
        verdict(Stage.GATE, "a", reason="supports: says how long"),
        verdict(Stage.GATE, "b", reason="contradicts: the old rule"),
        verdict(Stage.GATE, "c", False, "no bearing: about lamps (0.10 of 0.27)"),
        sources=sources,
        shape=Shape("How long can a chair be returned?", "lookup", rewritten=True, reason="“it” is the chair"),
        files=(
            InjectedFile("f", "app.toml", Injection.FULL, "timeout = 60", 4, "app.toml"),
            InjectedFile("g", "big.py", Injection.PACK, "def f(): …", 90, "big.py", "120 of 300 lines"),
            InjectedFile("h", "notes.md", Injection.NARROWS, "", 0, "notes.md"),
        ),
        memory=(
            MemoryVerdict("r", 1, 12, True, "on topic, 40 turns ago", 0.41),
            *(MemoryVerdict(f"t{n}", n, n, False, "off topic", 0.0) for n in (13, 14, 15, 18)),
            MemoryVerdict("t16", 16, 16, False, "faded: 35 turns ago", 0.2),
            MemoryVerdict("t17", 17, 17, False, "faded: 34 turns ago", 0.2),
            MemoryVerdict("t19", 19, 19, True, "marked important, 3 turns ago", 1.0),
        ),
        conflicts=(
            Conflict("t", 20, "The timeout is 30 seconds.", "app.toml", "timeout = 60"),
            Conflict("u", 21, "It has a retry.", "app.toml", "It has a retry.", repeats=True),
        ),
        degraded=(Degraded("gate", "3 of 4 passages stay unjudged: slow down"),),
        evidence=Evidence(
            0.31, 0.25, {"apart": 0.37, "sentence": 0.41, "words": 1.0986, "cosine": 0.38, "lead": -0.04}
        ),
        prompt=prompt_of(*sources, context=statements),
        condensed=statements,
        model="stub",
        usage=Usage(1_200, 80, 3, Decimal("0.0125"), 1.5),
        timings={"shape": 1.0, "search": 20.5},
        notices=("no file “x.py” in this project",),
        reran=True,
        conversation="talk",
        turn=22,
    )


EVERYTHING = [
    "question  understood as “How long can a chair be returned?”: “it” is the chair",
    "files     app.toml: FULL in the prompt, 4 tokens",
    "          big.py: PACK in the prompt, 90 tokens, without 120 of 300 lines",
    "          notes.md: not code or configuration, so the search is narrowed to it",
    "memory    2 of 8 earlier parts recalled",
    "          ✓ turns 1–12  0.41  on topic, 40 turns ago",
    "          ✓ turn 19     1.00  marked important, 3 turns ago",
    "          – off topic: turns 13–15, 18",
    "          – faded: turns 16–17",
    "conflicts turn 20: “The timeout is 30 seconds.” is left out: app.toml says “timeout = 60”",
    "          turn 21: “It has a retry.” is left out: app.toml says it",
    "passages  4 candidates: 2 kept, 1 dropped by gate, 1 beyond the best 3",
    "   [1]   0.50  a.md · Returns > a",
    "               found by words; gate: supports: says how long",
    "   [2]   0.50  b.md · Returns > b",
    "               found by words; gate: contradicts: the old rule",
    "          ── dropped by gate",
    "     –   0.50  c.md · Returns > c",
    "               found by words; gate: no bearing: about lamps (0.10 of 0.27)",
    "          ── beyond the best 3",
    "     –   0.50  d.md · Returns > d",
    "evidence  0.31, enough: an answer needs 0.25; the first passage is 0.38 near in meaning; that is 0.04 below the "
    "mean of the ten best; the first passage holds 37 % more of the question's words than the ten best do on average; "
    "one sentence holds 41 % of them; 3 words to look for",
    "condensed Facts:",
    "          - A chair may be returned. [1]",
    "          Constraints:",
    "          - Only with its feet. [2]",
]


def test_everything_is_shown_in_the_order_of_the_path() -> None:
    lines = shown(full()).splitlines()
    assert lines[: len(EVERYTHING)] == EVERYTHING
    prompt, *rest = lines[len(EVERYTHING) :]
    assert prompt.startswith("prompt    ") and " tokens: Instructions " in prompt and "Context " in prompt
    assert rest == [
        "missing   gate: 3 of 4 passages stay unjudged: slow down",
        "notes     the audit changed what is asked, so it was searched once more",
        "          no file “x.py” in this project",
        "model     stub: 3 calls, 1,200 tokens in, 80 out, $0.0125",
        "time      21.5 ms: shape 1.0, search 20.5",
    ]


def test_a_repetition_is_told_by_the_number_of_what_it_repeats() -> None:
    told = account(
        *(verdict(Stage.FUSE, chunk, reason=FOUND) for chunk in "abcd"),
        verdict(Stage.DEDUPE, "a", reason=UNIQUE),
        verdict(Stage.DEDUPE, "b", False, "repeats a in a.md (95 %)"),
        verdict(Stage.DEDUPE, "c", reason=UNIQUE),
        verdict(Stage.DEDUPE, "d", False, "repeats c in c.md (95 %)"),
        sources=[source(1, "a")],
    )
    lines = [line.strip() for line in shown(told).splitlines()]
    assert "found by words; dedupe: repeats [1] in a.md (95 %)" in lines
    assert "found by words; dedupe: repeats a passage in c.md (95 %)" in lines


def test_nothing_is_made_up_where_nothing_is_known() -> None:
    assert shown(account()) == ""
    assert shown(account(conversation="talk")) == "question  left as it is: it opens the conversation\n"


def test_evidence_by_words_alone_says_nothing_of_meaning() -> None:
    told = evidence_text(Evidence(0.1, 0.25, {"apart": -0.02, "sentence": 0.5, "words": 0.0}))
    assert told.startswith("0.10, too little: an answer needs 0.25; the first passage holds 2 % less of")
    assert "meaning" not in told and told.endswith("1 word to look for")
    assert evidence_text(Evidence(0.0, 0.25)) == "0.00, too little: an answer needs 0.25"


def test_what_had_no_room_and_what_was_hidden_is_named() -> None:
    prompt = replace(prompt_of(source(1, "a")), left_out=("turn 3", "source 2, b.md"), hidden=("4 of source 1",))
    lines = shown(account(prompt=prompt)).splitlines()
    assert lines[1:] == [
        "          no room for turn 3",
        "          no room for source 2, b.md",
        "          hidden characters taken out: 4 of source 1",
    ]


ANY = st.text(st.characters(max_codepoint=0x2FF), max_size=60)


@settings(max_examples=count(33, 100), deadline=None)
@given(ANY, ANY, st.integers(40, 120))
def test_whatever_files_are_called_and_say_is_shown_safely_and_fits(name: str, said: str, width: int) -> None:
    verdicts = [
        Verdict(each.stage, each.chunk, name, Locator((said, name)), each.kept, said, each.score)
        for each in full().verdicts
    ]
    told = replace(
        full(),
        shape=Shape(said, "lookup", rewritten=True, reason=name),
        verdicts=tuple(verdicts),
        files=(InjectedFile("f", name, Injection.PACK, said, 4, name, said),),
        memory=(MemoryVerdict("t", 1, 1, True, said, 0.5), MemoryVerdict("u", 2, 2, False, name, 0.5)),
        conflicts=(Conflict("t", 1, said, name, said),),
        degraded=(Degraded(name, said),),
        notices=(said,),
        prompt=prompt_of(source(1, "a"), context=Condensed((Statement(said or "x", (1,)),))),
    )
    lines = shown(told, width).split("\n")
    assert max(map(len, lines)) <= width
    assert not any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for line in lines for sign in line)


# -- for programs


def test_programs_get_the_same() -> None:
    told = json.loads(json_text(why_fields(full())))
    assert told["shape"]["rewritten"] and told["shape"]["reason"] == "“it” is the chair"
    assert [(each["document"], each["how"], each["left_out"]) for each in told["files"]] == [
        ("app.toml", "full", ""),
        ("big.py", "pack", "120 of 300 lines"),
        ("notes.md", "narrows", ""),
    ]
    assert [each["kept"] for each in told["memory"]].count(True) == 2 and len(told["memory"]) == 8
    assert [each["against"] for each in told["conflicts"]] == ["app.toml", "app.toml"]
    by_chunk = {each["chunk_id"]: each for each in told["candidates"]}
    assert list(by_chunk) == ["a", "b", "c", "d"]
    assert [(each["kept"], each["stage"], each["source"]) for each in by_chunk.values()] == [
        (True, "gate", 1),
        (True, "gate", 2),
        (False, "gate", None),
        (False, "cut", None),
    ]
    assert [each["stage"] for each in by_chunk["a"]["verdicts"]] == ["fuse", "dedupe", "gate"]
    assert told["evidence"]["enough"] and told["evidence"]["features"]["lead"] == -0.04
    assert told["prompt"]["condensed"][1] == "- A chair may be returned. [1]"
    assert told["prompt"]["tokens"] == sum(each["tokens"] for each in told["prompt"]["sections"])
    assert told["usage"] == {"input_tokens": 1200, "output_tokens": 80, "calls": 3, "cost": 0.0125, "seconds": 1.5}
    assert told["reran"] and told["turn"] == 22 and told["degraded"][0]["part"] == "gate"
    bare = json.loads(json_text(why_fields(account(usage=Usage(calls=1)))))
    assert bare["evidence"] is None and bare["prompt"] is None and bare["usage"]["cost"] is None
