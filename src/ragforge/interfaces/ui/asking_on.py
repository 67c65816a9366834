"""Who asked can ask on: the box, closed while an answer is written, has the focus again when it opens.

As `cited`, this component is trusted code and loads nothing. It shows nothing either.
"""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

_JS = """
const again = (left) => {
  const box = document.querySelector('[data-testid="stChatInputTextArea"]');
  if (left && (!box || box.disabled)) setTimeout(again, 50, left - 1);
  else if (document.activeElement === document.body && !document.body.mark) box?.focus();
  // else somebody is at something else by now, such as a citation whose answer is just being drawn
};
export default function ({ data }) {
  const waited = document.body.dataset.ragforgeWaited;
  if (data.busy) document.body.dataset.ragforgeWaited = "yes";
  else if (waited) {
    delete document.body.dataset.ragforgeWaited;
    again(40);
  }
}
"""


@st.cache_resource(show_spinner=False)
def _component() -> Callable[..., object]:
    """Registered once: another registration would take what is on the page off it for a moment."""
    return st.components.v2.component("ragforge_asking_on", html="<span></span>", js=_JS)


def keep_asking(*, busy: bool) -> None:
    """`busy` tells whether the box is closed just now."""
    _component()(key="asking-on", data={"busy": busy})
