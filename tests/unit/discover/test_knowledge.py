"""What the interviewer knows is data: complete, looked up by key, editable, and checked when it is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ragforge.discover.knowledge import MODES, PATTERNS, PROBES, SHIPPED, Mode, load, signalled, strength
from ragforge.domain.tokens import estimated_tokens
from ragforge.errors import UserError
from ragforge.retrieve.words import terms_of

KNOWN = load()


def stems(text: str) -> tuple[str, ...]:
    return tuple(terms_of([text])[0])


@pytest.mark.parametrize("mode", KNOWN.values(), ids=str)
def test_G1_each_mode_has_seven_probes_and_eight_patterns_of_substance(mode: Mode) -> None:
    assert len(mode.probes) == PROBES and len(mode.patterns) == PATTERNS
    assert all(mode.probes[key].key == key for key in mode.probes)
    assert 380 <= estimated_tokens(mode.core) <= 1_000
    for probe in mode.probes.values():
        assert all((probe.purpose, probe.when, probe.good_answer, probe.signals, probe.follow_ups))
        assert 2 <= len(probe.clusters) <= 3 and 3 <= len(probe.criteria) <= 4
        assert all(2 <= len(cluster.questions) <= 3 for cluster in probe.clusters)
        assert estimated_tokens(probe.text) <= 900
        assert {question.criterion for each in probe.clusters for question in each.questions} == {
            each.key for each in probe.criteria
        }
    for pattern in mode.patterns.values():
        assert all((pattern.about, pattern.look_for, pattern.questions, pattern.assumptions))
        assert estimated_tokens(pattern.text) <= 250
        assert all(mode.probes[each.probe].criterion(each.criterion) for each in pattern.questions)
    assert {each.section for probe in mode.probes.values() for each in probe.criteria} == {
        each.key for each in mode.sections
    }


def test_G1_no_question_is_there_twice_and_none_can_be_answered_with_yes() -> None:
    from ragforge.discover.filler import can_be_agreed_to

    asked = [
        question.ask
        for mode in KNOWN.values()
        for probe in mode.probes.values()
        for cluster in probe.clusters
        for question in cluster.questions
    ]
    assert len(set(asked)) == len(asked)
    assert not [each for each in asked if can_be_agreed_to(each)]


def test_G1_signals_are_heard_in_any_inflection_and_phrases_word_after_word() -> None:
    assert signalled(["decide", "sign off"], stems("She decided; legal signs off on it."), stems) == 2
    assert signalled(["sign off"], stems("The sign is off."), stems) == 0
    assert strength(["decide", "sign off"], stems("She decided; legal signs off."), stems) == 5


def test_G1_a_file_of_ones_own_replaces_by_key(tmp_path: Path) -> None:
    (tmp_path / "problem.toml").write_text(
        'title = "Our way"\n[[probes]]\nkey = "impact"\ntitle = "How big"\npurpose = "p"\nwhen = "w"\n'
        'signals = ["big"]\ngood_answer = "g"\n'
        '[[probes.criteria]]\nkey = "size"\ntext = "It is sized."\nsection = "impact"\nsignals = ["size"]\n'
        '[[probes.clusters]]\nname = "Size"\nquestions = [{ ask = "How big is it?", criterion = "size" }]\n'
    )
    with pytest.raises(UserError, match="names the criterion"):
        load(tmp_path)  # patterns ask for criteria of that probe that are gone
    patterns = list(KNOWN["problem"].patterns.values())
    touched = [each for each in patterns if any(one.probe == "impact" for one in each.questions)]
    text = (tmp_path / "problem.toml").read_text()
    for each in touched:
        text += (
            f'[[patterns]]\nkey = "{each.key}"\ntitle = "t"\nabout = "a"\nsignals = ["s"]\nlook_for = ["l"]\n'
            'assumptions = ["a"]\nquestions = [{ ask = "How?", probe = "impact", criterion = "size" }]\n'
        )
    (tmp_path / "problem.toml").write_text(text)
    mode = load(tmp_path)["problem"]
    assert mode.title == "Our way"
    assert list(mode.probes) == list(KNOWN["problem"].probes), "in its old place"
    assert mode.probes["impact"].title == "How big"
    assert mode.probes["people"] == KNOWN["problem"].probes["people"]
    assert load()["problem"] == KNOWN["problem"], "the shipped one stays as it is"


def _without(text: str) -> Callable[[str], str]:
    return lambda shipped: shipped.replace(text, "", 1)


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda text: text + "\n= nonsense", "problem.toml"),
        (lambda text: text.replace('key = "people"', 'key = "People!"', 1), "is no key"),
        (lambda text: text.replace("[[patterns]]", "[[pattern]]", 1), "pattern"),
        (lambda text: text.replace('criterion = "', 'criterion = "un', 1), "names the criterion"),
        (lambda text: text.replace('name = "problem"', 'name = "other"', 1), "its name is 'other'"),
        (lambda text: text.replace('section = "background"', 'section = "nowhere"'), "names the section"),
    ],
)
def test_G1_a_broken_file_is_refused_with_its_place(change: Callable[[str], str], said: str, tmp_path: Path) -> None:
    shipped = (SHIPPED / "problem.toml").read_text()
    (tmp_path / "problem.toml").write_text(change(shipped))
    with pytest.raises(UserError, match=said) as refused:
        load(tmp_path)
    assert str(tmp_path) in refused.value.message and refused.value.hint


def test_G1_both_modes_are_told_apart() -> None:
    one, other = (KNOWN[name] for name in MODES)
    assert not set(one.probes) & set(other.probes)
    assert not {each.key for each in one.sections} & {each.key for each in other.sections}
