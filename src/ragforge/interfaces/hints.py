"""Hints for callers who have no command line: errors name commands of ours, and these callers have others.

A command that has its like over HTTP or among the tools is told by that name. What is left, such as a setting, a
package or `ragforge reindex`, is for whoever runs the server; the caller can pass it on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ragforge.settings import SECTIONS

_PROJECT = "/v1/projects/{project}"

HTTP: Mapping[str, str] = {
    "ragforge project ls": "GET /v1/projects",
    "ragforge jobs ls": "GET /v1/jobs",
    "ragforge ls": f"GET {_PROJECT}/files",
    "ragforge on FILE": f'PATCH {_PROJECT}/files/{{file}} with {{"enabled": true}}',
    "ragforge add FILE": f"POST {_PROJECT}/files",
    "ragforge conversation ls": f"GET {_PROJECT}/conversations",
    "ragforge log ls": f"GET {_PROJECT}/log",
    "ragforge make ls": f"GET {_PROJECT}/artifacts",
    r"ragforge make show (\S+) --out FILE": rf"GET {_PROJECT}/artifacts/\1",
    "ragforge eval ls shows the sets and their runs": f"GET {_PROJECT}/questions shows the sets",
    "ragforge eval ls": f"GET {_PROJECT}/evaluations",
    r"ragforge eval run (\S+)": rf'POST {_PROJECT}/evaluations with {{"questions": "\1"}}',
    "ragforge learn staged": f"GET {_PROJECT}/lessons/staged",
    "ragforge learn ls": f"GET {_PROJECT}/lessons/patterns",
    "ragforge learn show": f"GET {_PROJECT}/lessons/patterns/{{pattern}}",
    "ragforge learn checkpoint": f"POST {_PROJECT}/lessons/checkpoints",
    "ragforge discover ls": f"GET {_PROJECT}/discovery",
    "ragforge discover begins one": f"POST {_PROJECT}/discovery begins one",
    "ragforge discover goes on with it": f"POST {_PROJECT}/discovery/{{interview}}/turns goes on with it",
    "--judge-model": "`judge`",
    "--(agent|answers|k|model)": r"`\1`",
}
"""What hints say to those at a terminal, as patterns, and the calls and fields that do the same."""

TOOLS: Mapping[str, str] = {
    "ragforge project ls": "list_projects",
    "ragforge ls": "list_files",
    "ragforge learn ls": "lessons_query",
}

_ELSEWHERE = re.compile(
    r"ragforge [a-z]|(?<!curl )--[a-z]|\bpip install\b|\bragforge\.toml\b|\b[A-Z]+_[A-Z_]+\b"
    rf"|\b(?:{'|'.join(SECTIONS)})\.[a-z_]+\b"
)
"""Commands, flags, packages, variables and settings: what is done where the server runs."""


PAGE: Mapping[str, str] = {
    "Add files with ragforge add, or switch some on": "Drop files into the sidebar, or switch some on",
    "ragforge ls shows the files and their ids": "the sidebar lists the files",
    "ragforge add FILE": "drop it into the sidebar",
    "ragforge add PATH": "drop files into the sidebar",
    "ragforge on FILE": "switch it on in the sidebar",
    "ragforge make ls shows what (?:was made|there is)": "the page Documents lists them",
    "ragforge eval ls shows (?:the sets and their runs|them)": "the page Evaluation lists them",
    r"ragforge eval run (\S+)": r"run \1 on the page Evaluation",
    "ragforge jobs ls": "the page Status",
    "ragforge project ls shows what there is": "the list at the top of the sidebar shows what there is",
    "ragforge conversation ls shows (?:them|yours)": "the sidebar lists them",
    "ragforge ls shows the names": "the sidebar lists the names",
    "ragforge learn (?:ls|staged) shows what (?:there is|waits for a checkpoint)": "the page Lessons lists them",
    "ragforge learn show lists them": "its captures are listed with it",
    "ragforge learn checkpoint": "press Checkpoint now",
    "ragforge discover ls shows yours": "the list at the top of the page Discovery shows yours",
    "ragforge discover begins one": "begin one on the page Discovery",
    "ragforge discover points shows them with their numbers": "the document shows them; look at it again",
    "send Authorization: Bearer rf_…, or X-API-Key: rf_…": "sign in with a key",
    "choose another model with --model": "choose another under Control",
}
"""What hints say to those at a terminal, as patterns, and where the same is done on the web page."""


def renamed(hint: str, names: Mapping[str, str]) -> str:
    """The hint with the names of another interface."""
    for said, name in names.items():
        hint = re.sub(rf"(?<![\w-]){said}(?![\w-])", name, hint)
    return hint


def told(hint: str, names: Mapping[str, str]) -> str:
    """The hint in the words of an interface."""
    hint = renamed(hint, names)
    return f"whoever runs the server can help: {hint}" if _ELSEWHERE.search(hint) else hint
