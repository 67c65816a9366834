"""The view Prompt: the super-prompt by block, in the order of authority. What is shown is what is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape

import streamlit as st

from ragforge.assemble.shape import TASKS
from ragforge.domain.access import Action
from ragforge.domain.answers import Prompted
from ragforge.domain.generation import Estimate, Message
from ragforge.domain.prompts import PromptSection, Shaping, SuperPrompt
from ragforge.domain.tokens import estimated_tokens
from ragforge.errors import RagforgeError
from ragforge.interfaces.ui.look import bar, chip, dim, empty, html, quiet, sentence, show_problem, table
from ragforge.interfaces.ui.session import Session, keep, kept
from ragforge.interfaces.words import count, price

_ABOUT: Mapping[str, str] = {
    "Instructions": "Our own words around the blocks",
    "Persona": "Who speaks",
    "Hard Rules": "First in authority: people wrote them for this project",
    "Project Memory": "Second: what people wrote down about this project",
    "❖ FILES": "Third: files that the question names",
    "Context": "Fourth: what was found, as passages or condensed",
    "Task": "What you ask",
    "Format": "How the answer should look",
    "Recent history": "To understand the question; it has no authority",
}
_LINES = 12


# -- blocks: pure


def blocks_of(prompt: SuperPrompt) -> list[list[PromptSection]]:
    """The sections of each message; together they are its text."""
    sections, blocks = list(prompt.sections), []
    for message in prompt.messages:
        block: list[PromptSection] = []
        while sections and sum(len(each.text) for each in block) < len(message.text):
            block.append(sections.pop(0))
        blocks.append(block)
    return blocks


def changed(prompt: SuperPrompt, texts: Sequence[str]) -> SuperPrompt:
    """The prompt with these texts in the place of its sections', in their order."""
    left, messages, sections = list(texts), [], []
    for message, block in zip(prompt.messages, blocks_of(prompt), strict=True):
        own, left = left[: len(block)], left[len(block) :]
        messages.append(Message(message.role, "".join(own)))
        sections += [
            each if each.text == text else replace(each, text=text, tokens=estimated_tokens(text))
            for each, text in zip(block, own, strict=True)
        ]
    return replace(prompt, messages=tuple(messages), sections=tuple(sections))


# -- the view


def prompt(session: Session, draft: str | None) -> Prompted | None:
    """Make a prompt, look at it, change it; what comes back is to be sent."""
    with st.form("draft-form", border=False):
        question = st.text_area(
            "Your question", value=draft or "", key=f"draft-{hash(draft)}", height=90, max_chars=20_000,
            placeholder="Ask something, and see exactly what a model would be sent",
        )  # fmt: skip
        wanted = st.form_submit_button("Show the prompt", type="primary")
    made = kept("prompted", None)
    if (wanted or (draft and made is None)) and question.strip():
        keep("draft", question)
        made = _make(session, question, None)
    if made is None:
        empty(
            "No prompt yet",
            "It is built of blocks in a fixed order of authority: Hard Rules, Project Memory, ❖ FILES, context, your "
            "task. Write a question above to see it, with its tokens and its price. You can change every block before "
            "it is sent.",
        )
        return None
    return _shown(session, made)


def _make(session: Session, question: str, shaping: Shaping | None) -> Prompted | None:
    forge = session.forge(Action.ASK)
    try:
        with st.spinner("Looking for passages …"):
            session.visitor.spend()
            how = session.options()
            how.pop("ephemeral", None)
            if session.conversation and not session.choices.ephemeral:
                how["conversation"] = session.conversation
            if shaping is not None:
                how["shaping"] = shaping
            made = forge.prompt(question, project=session.slug, **how)
    except RagforgeError as problem:
        show_problem(problem)
        return None
    keep("prompted", made)
    return made


def _shown(session: Session, made: Prompted) -> Prompted | None:
    account = made.account
    now = changed(made.prompt, [st.session_state.get(_key(made, place), section.text)
                                for place, section in enumerate(made.prompt.sections)])  # fmt: skip
    _estimated(_counted(made, now))
    if account.files:
        html("".join(chip(f"❖ {file.name} · {file.how}") for file in account.files))
    for notice in account.notices:
        dim(sentence(notice))
    if made.abstention is not None:
        st.info(
            f"**It would not be sent.** {quiet(made.abstention.reason)} You can send it all the same.",
            icon=":material/search_off:",
        )
    _shape(session, made)
    sending = replace(made, prompt=changed(made.prompt, _blocks(made, now)))
    edited = sending.prompt.messages != made.prompt.messages
    with st.container(horizontal=True, vertical_alignment="center"):
        send = st.button(
            "Send as changed" if edited else "Send",
            key="send-prompt",
            type="primary",
            icon=":material/send:",
            disabled=made.estimate is None,
        )
        if edited and st.button("Undo changes", key="undo-prompt"):
            for place in range(len(made.prompt.sections)):
                st.session_state.pop(_key(made, place), None)
            st.rerun()
        if made.estimate is None:
            dim("There is no model to send it to: choose one under Control. Without one, answers quote your files.")
        elif edited:
            dim("Exactly what stands here is sent.")
    with st.expander("Byte for byte as it is sent", icon=":material/data_object:"):
        for message in sending.prompt.messages:
            st.caption(message.role.upper())
            st.code(message.text, language=None, wrap_lines=True)
    return sending if send else None


def _estimated(told_of: Estimate | None) -> None:
    if told_of is None:
        return
    window = "how much it reads is not known" if told_of.window is None else f"it reads {told_of.window:,}"
    first, second, third = st.columns(3)
    first.metric("Tokens to read", f"{told_of.input_tokens:,}", help=quiet(f"{told_of.model}: {window}"))
    second.metric("To write, at most", f"{told_of.output_tokens:,}")
    third.metric("Price, at most", price(told_of.cost))
    if not told_of.fits:
        st.warning(f"It does not fit: {quiet(told_of.model)} {quiet(window)}.", icon=":material/warning:")


def _shape(session: Session, made: Prompted) -> None:
    """A2: what was understood, to be changed by hand."""
    shape, key = made.account.shape, made.account.trace_id
    understood = quiet(", ".join(filter(None, (shape.intent, shape.domain))))
    with st.expander(f"Shape: {understood}", icon=":material/tune:"):
        if shape.rewritten:
            st.markdown(f"Understood as: **{quiet(shape.standalone)}** ({quiet(shape.reason)})")
        with st.form(f"shape-{key}", border=False):
            left, right = st.columns(2)
            intents = list(dict.fromkeys((*([shape.intent] if shape.intent in TASKS else []), *TASKS)))
            intent = left.selectbox("Intent", intents, key=f"intent-{key}")
            domain = right.text_input("Domain", value=shape.domain, key=f"domain-{key}", max_chars=200)
            headers = st.text_area(
                "Headings of the answer, one in a line",
                value="\n".join(shape.headers),
                key=f"headers-{key}",
                height=100,
            )
            if st.form_submit_button("Make the prompt anew with these"):
                lines = tuple(line.strip() for line in headers.splitlines() if line.strip())
                _make(session, made.account.question, Shaping(intent, domain.strip(), lines))
                st.rerun()


def _key(made: Prompted, place: int) -> str:
    return f"block-{made.account.trace_id}-{place}"


def _counted(made: Prompted, now: SuperPrompt) -> Estimate | None:
    """Tokens and price of the prompt as it stands there now; what was changed is counted roughly."""
    told_of = made.estimate
    if told_of is None or now == made.prompt:
        return told_of
    more = sum(each.tokens for each in now.sections) - sum(each.tokens for each in made.prompt.sections)
    tokens = max(0, told_of.input_tokens + more)
    cost = (
        None
        if told_of.cost is None
        else told_of.cost * (tokens + told_of.output_tokens) / max(1, told_of.input_tokens + told_of.output_tokens)
    )
    return replace(told_of, input_tokens=tokens, cost=cost)


def _blocks(made: Prompted, now: SuperPrompt) -> list[str]:
    """Each block to be changed, under its tokens as it stands there now. The texts as they are."""
    sections = now.sections
    most = max((section.tokens for section in sections), default=1) or 1
    total = sum(section.tokens for section in sections)
    rows = [
        [
            escape(section.name),
            f"{bar(section.tokens / most)}",
            f"{section.tokens:,}",
            escape(_ABOUT.get(section.name, "")),
        ]
        for section in sections
    ]
    with st.expander(f"{count(len(sections), 'block')}, {count(total, 'token')}", icon=":material/stacks:"):
        html(table(("Block", "", "Tokens", ""), rows, numbers=(2,)))
    texts = []
    for place, section in enumerate(sections):
        text = made.prompt.sections[place].text
        lines = min(_LINES, text.count("\n") + len(text) // 90 + 1)
        texts.append(
            st.text_area(
                f"{quiet(section.name)} · {count(section.tokens, 'token')}",
                value=made.prompt.sections[place].text,
                key=_key(made, place),
                height=max(70, 26 * lines + 24),
                help=_ABOUT.get(section.name),
            )
        )
    return texts
