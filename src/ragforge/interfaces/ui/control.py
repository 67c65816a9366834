"""How the next question is answered: model, stages, strictness, weight, lock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from ragforge.build import OFFLINE
from ragforge.domain.access import Action
from ragforge.domain.generation import ModelCard
from ragforge.domain.library import Status
from ragforge.domain.models import LanguageModels
from ragforge.interfaces.ui.look import dim, quiet, told
from ragforge.interfaces.ui.session import STAGES, Choices, Session, end_private, keep

_MOST_OFFERED = 1_000
"""Files in a list to choose from."""


def control(session: Session) -> None:
    with told():
        _model(session)
        _files(session)
        _stages(session)
        _ranking(session)
        _keeping(session)


def _change(name: str, key: str, read: Callable[[Any], Any] = lambda value: value) -> None:
    choices = st.session_state.get("rf_choices", Choices())
    keep("choices", replace(choices, **{name: read(st.session_state[key])}))


QUOTES = "Quotes, without a model"


def models_for(session: Session) -> dict[str, str]:
    """The models that are reachable now and may be chosen, by name, as the page shows them; empty: as set."""
    found = session.engine.models(session.visitor)
    usable = [each.card.name for each in found.models if not each.problem]
    offered = {name: name for name in usable if session.visitor.may_choose(name)}
    usual = usual_model(found)
    return {"": f"As set: {usual}", OFFLINE: QUOTES, **offered} if usual else {"": QUOTES, **offered}


def usual_model(found: LanguageModels) -> str:
    """Who answers unless somebody chooses otherwise; empty: nobody."""
    return next((each.card.name for each in found.models if "answers" in each.used_for), "")


def _model(session: Session) -> None:
    found, choices, names = session.engine.models(session.visitor), session.choices, models_for(session)
    if choices.model and choices.model not in names:
        names[choices.model] = f"{choices.model} (not reachable)"
    key = "choice-model"
    st.session_state[key] = choices.model
    st.selectbox(
        "Model",
        list(names),
        key=key,
        format_func=lambda name: names.get(name, name),
        on_change=_change,
        args=("model", key),
        help="Who writes the answer. Without a model the answer quotes your files, word for word.",
    )
    _facts(found, choices.model or usual_model(found))
    missing = [each for each in found.models if each.problem]
    if missing:
        with st.expander(f"{len(missing)} not reachable"):
            for each in missing:
                hint = f" Next: {each.hint}" if each.hint else ""
                st.markdown(f"**{quiet(each.card.name)}**: {quiet(each.problem + hint)}")


def _facts(found: LanguageModels, name: str) -> None:
    card = next((each.card for each in found.models if each.card.name == name), None)
    if card is not None:
        dim(_price(card) + (f", reads {card.window:,} tokens" if card.window else ""))
    elif not name or name == OFFLINE:
        dim("Free, offline. To have answers written, set model.name in ragforge.toml, or start Ollama.")


def _price(card: ModelCard) -> str:
    if card.input_price is None or card.output_price is None:
        return "Price unknown"
    if not card.input_price and not card.output_price:
        return "Free"
    return f"${card.input_price:g} per million tokens read, ${card.output_price:g} written"


def _files(session: Session) -> None:
    choices = session.choices
    st.session_state["choice-lock"] = choices.lock
    st.toggle(
        "Exact File Lock",
        key="choice-lock",
        on_change=_change,
        args=("lock", "choice-lock"),
        help="Only the files that your question names, whole, and no search beside them.",
    )
    found = session.forge(Action.READ).documents(project=session.slug, status=Status.READY, limit=_MOST_OFFERED)
    documents = {document.id: document.name for document in found if document.enabled or document.id in choices.only}
    documents |= {id: id for id in choices.only if id not in documents}
    key = "choice-only"
    st.session_state[key] = list(choices.only)
    st.multiselect(
        "Only these files",
        list(documents),
        key=key,
        format_func=lambda id: documents.get(id, id),
        on_change=_change,
        args=("only", key, tuple),
        placeholder="All that are on",
    )
    if len(found) == _MOST_OFFERED:
        dim(f"The first {_MOST_OFFERED:,} are offered; name others in your question.")


def _stages(session: Session) -> None:
    st.caption("Stages")
    for stage, (name, about) in STAGES.items():
        key = f"choice-{stage}"
        st.session_state[key] = stage in stages_of(session)
        st.toggle(name, key=key, on_change=_switch_stage, args=(session, stage, key), help=about)


def stages_of(session: Session) -> frozenset[str]:
    chosen = session.choices.stages
    return session.engine.stages if chosen is None else chosen


def _switch_stage(session: Session, stage: str, key: str) -> None:
    choices, now = session.choices, stages_of(session)
    stages = now | {stage} if st.session_state[key] else now - {stage}
    keep("choices", replace(choices, stages=stages))


def _ranking(session: Session) -> None:
    choices = session.choices
    key = "choice-strictness"
    st.session_state[key] = session.engine.strictness if choices.strictness is None else choices.strictness
    st.slider(
        "Strictness θ",
        0.0,
        1.0,
        key=key,
        step=0.05,
        on_change=_change,
        args=("strictness", key),
        disabled="gate" not in stages_of(session),
        help="Of the gate: 0 keeps every passage, 1 only what clearly bears on the question.",
    )
    st.session_state["choice-weighed"] = choices.alpha is not None
    st.toggle(
        "Weigh words and meaning by hand",
        key="choice-weighed",
        on_change=_change,
        args=("alpha", "choice-weighed", lambda by_hand: 0.5 if by_hand else None),
        help="Else as it was measured for the model of this project.",
    )
    if choices.alpha is not None:
        st.session_state["choice-alpha"] = choices.alpha
        st.slider(
            "Words ↔ meaning",
            0.0,
            1.0,
            key="choice-alpha",
            step=0.05,
            on_change=_change,
            args=("alpha", "choice-alpha"),
            help="0 ranks by words alone, 1 by meaning alone.",
        )


def _keeping(session: Session) -> None:
    for name, label, about in (
        ("preview", "Show the prompt before sending", "With its tokens and price; you can change it."),
        ("ephemeral", "Keep nothing", "No turn and no line in the log: it is gone with this tab."),
    ):
        key = f"choice-{name}"
        st.session_state[key] = getattr(session.choices, name)
        st.toggle(label, key=key, on_change=_keep_or_not, args=(name, key), help=about)


def _keep_or_not(name: str, key: str) -> None:
    _change(name, key)
    if name == "ephemeral":
        end_private()
