"""Blocks of a prompt on the page: what is shown is what is sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragforge.domain.generation import Message, Role
from ragforge.domain.prompts import PromptSection, SuperPrompt
from ragforge.interfaces.ui.prompt import blocks_of, changed

_SECTIONS = st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=5)


def _prompt(system: list[str], user: list[str]) -> SuperPrompt:
    sections = tuple(PromptSection(f"part {place}", text, 1) for place, text in enumerate([*system, *user]))
    messages = (Message(Role.SYSTEM, "".join(system)), Message(Role.USER, "".join(user)))
    return SuperPrompt(messages, sections, "marker")


@given(_SECTIONS, _SECTIONS)
def test_each_section_belongs_to_one_message(system: list[str], user: list[str]) -> None:
    blocks = blocks_of(_prompt(system, user))
    assert [[section.text for section in block] for block in blocks] == [system, user]


@given(_SECTIONS, _SECTIONS)
def test_what_nobody_changed_is_sent_as_it_was(system: list[str], user: list[str]) -> None:
    prompt = _prompt(system, user)
    assert changed(prompt, [section.text for section in prompt.sections]) == prompt


@given(_SECTIONS, _SECTIONS, st.data())
def test_what_stands_in_the_blocks_is_what_is_sent(system: list[str], user: list[str], data: st.DataObject) -> None:
    texts = [data.draw(st.text(max_size=30)) for _ in (*system, *user)]
    sent = changed(_prompt(system, user), texts)
    assert [message.text for message in sent.messages] == ["".join(texts[: len(system)]), "".join(texts[len(system) :])]
    assert [section.text for section in sent.sections] == texts
