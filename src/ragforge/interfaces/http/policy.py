"""Who may call what: one row for each route. A route without a row stops the start, and is not reached either."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from ragforge.domain.access import Action

OPEN = None
"""For everybody, also without a key."""
WS = "WS"
"""In place of a method: a WebSocket."""

POLICY: Mapping[tuple[str, str], Action | None] = {
    ("GET", "/"): OPEN,
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/metrics"): Action.OPERATE,
    ("GET", "/docs"): OPEN,
    ("GET", "/openapi.json"): OPEN,
    # projects
    ("GET", "/v1/projects"): Action.READ,
    ("POST", "/v1/projects"): Action.MANAGE,
    ("GET", "/v1/projects/{project}"): Action.READ,
    ("PATCH", "/v1/projects/{project}"): Action.MANAGE,
    ("DELETE", "/v1/projects/{project}"): Action.MANAGE,
    ("GET", "/v1/projects/{project}/texts/{kind}"): Action.READ,
    ("PUT", "/v1/projects/{project}/texts/{kind}"): Action.MANAGE,
    ("GET", "/v1/projects/{project}/texts/{kind}/versions"): Action.READ,
    ("POST", "/v1/projects/{project}/rebuild"): Action.MANAGE,
    ("POST", "/v1/projects/{project}/reindex"): Action.MANAGE,
    # files
    ("GET", "/v1/projects/{project}/files"): Action.READ,
    ("POST", "/v1/projects/{project}/files"): Action.WRITE,
    ("GET", "/v1/projects/{project}/files/{file}"): Action.READ,
    ("PATCH", "/v1/projects/{project}/files/{file}"): Action.WRITE,
    ("DELETE", "/v1/projects/{project}/files/{file}"): Action.WRITE,
    ("GET", "/v1/projects/{project}/files/{file}/content"): Action.READ,
    ("GET", "/v1/projects/{project}/files/{file}/chunks"): Action.READ,
    ("GET", "/v1/projects/{project}/files/{file}/text"): Action.READ,
    # questions
    ("POST", "/v1/projects/{project}/search"): Action.ASK,
    ("POST", "/v1/projects/{project}/explain"): Action.ASK,
    ("POST", "/v1/projects/{project}/prompt"): Action.ASK,
    ("POST", "/v1/projects/{project}/ask"): Action.ASK,
    (WS, "/v1/projects/{project}/chat"): Action.ASK,
    ("GET", "/v1/streams/{stream}"): Action.ASK,
    ("DELETE", "/v1/streams/{stream}"): Action.ASK,
    ("GET", "/v1/language-models"): Action.ASK,
    ("GET", "/v1/tuning"): Action.READ,
    # memory
    ("GET", "/v1/projects/{project}/conversations"): Action.ASK,
    ("POST", "/v1/projects/{project}/conversations"): Action.ASK,
    ("GET", "/v1/projects/{project}/conversations/{conversation}"): Action.ASK,
    ("PATCH", "/v1/projects/{project}/conversations/{conversation}"): Action.ASK,
    ("DELETE", "/v1/projects/{project}/conversations/{conversation}"): Action.ASK,
    ("GET", "/v1/projects/{project}/conversations/{conversation}/markdown"): Action.ASK,
    ("GET", "/v1/projects/{project}/conversations/{conversation}/rollups"): Action.ASK,
    ("GET", "/v1/projects/{project}/turns"): Action.ASK,
    ("PATCH", "/v1/projects/{project}/turns/{turn}"): Action.ASK,
    ("DELETE", "/v1/projects/{project}/turns/{turn}"): Action.ASK,
    # documents that are made, and who writes them
    ("GET", "/v1/agents"): Action.READ,
    ("GET", "/v1/agents/{agent}"): Action.READ,
    ("GET", "/v1/document-kinds"): Action.READ,
    ("GET", "/v1/projects/{project}/artifacts"): Action.READ,
    ("POST", "/v1/projects/{project}/artifacts"): Action.WRITE,
    ("GET", "/v1/projects/{project}/artifacts/{artifact}"): Action.READ,
    ("PATCH", "/v1/projects/{project}/artifacts/{artifact}"): Action.WRITE,
    ("DELETE", "/v1/projects/{project}/artifacts/{artifact}"): Action.WRITE,
    # the log
    ("GET", "/v1/projects/{project}/log"): Action.ASK,
    ("DELETE", "/v1/projects/{project}/log"): Action.MANAGE,
    ("GET", "/v1/projects/{project}/log/{entry}"): Action.ASK,
    ("POST", "/v1/projects/{project}/log/{entry}/feedback"): Action.ASK,
    ("GET", "/v1/projects/{project}/spent"): Action.ASK,
    # evaluation
    ("GET", "/v1/projects/{project}/questions"): Action.READ,
    ("POST", "/v1/projects/{project}/questions"): Action.WRITE,
    ("GET", "/v1/projects/{project}/questions/{name}"): Action.READ,
    ("GET", "/v1/projects/{project}/evaluations"): Action.READ,
    ("POST", "/v1/projects/{project}/evaluations"): Action.WRITE,
    ("GET", "/v1/projects/{project}/evaluations/{run}"): Action.READ,
    ("GET", "/v1/projects/{project}/evaluations/{before}/compare/{after}"): Action.READ,
    # guided interviews: each caller's own; a document that is kept, and what is known of the organisation, are for all
    ("GET", "/v1/discovery/modes"): Action.READ,
    ("GET", "/v1/projects/{project}/org-context"): Action.READ,
    ("PUT", "/v1/projects/{project}/org-context"): Action.WRITE,
    ("GET", "/v1/projects/{project}/discovery"): Action.ASK,
    ("POST", "/v1/projects/{project}/discovery"): Action.ASK,
    ("GET", "/v1/projects/{project}/discovery/{interview}"): Action.ASK,
    ("PATCH", "/v1/projects/{project}/discovery/{interview}"): Action.ASK,
    ("DELETE", "/v1/projects/{project}/discovery/{interview}"): Action.ASK,
    ("GET", "/v1/projects/{project}/discovery/{interview}/turns"): Action.ASK,
    ("POST", "/v1/projects/{project}/discovery/{interview}/turns"): Action.ASK,
    ("POST", "/v1/projects/{project}/discovery/{interview}/undo"): Action.ASK,
    ("GET", "/v1/projects/{project}/discovery/{interview}/versions"): Action.ASK,
    ("POST", "/v1/projects/{project}/discovery/{interview}/assumptions"): Action.ASK,
    ("PATCH", "/v1/projects/{project}/discovery/{interview}/assumptions/{assumption}"): Action.ASK,
    ("DELETE", "/v1/projects/{project}/discovery/{interview}/assumptions/{assumption}"): Action.ASK,
    ("POST", "/v1/projects/{project}/discovery/{interview}/points"): Action.ASK,
    ("PATCH", "/v1/projects/{project}/discovery/{interview}/points/{point}"): Action.ASK,
    ("DELETE", "/v1/projects/{project}/discovery/{interview}/points/{point}"): Action.ASK,
    ("PUT", "/v1/projects/{project}/discovery/{interview}/mode"): Action.ASK,
    ("GET", "/v1/projects/{project}/discovery/{interview}/document"): Action.ASK,
    ("POST", "/v1/projects/{project}/discovery/{interview}/document"): Action.WRITE,
    # what agents learn: they tell it, orchestrators ask for it, people review it
    ("POST", "/v1/projects/{project}/lessons"): Action.CAPTURE,
    ("GET", "/v1/projects/{project}/lessons/staged"): Action.MANAGE,
    ("GET", "/v1/projects/{project}/lessons/staged/{lesson}"): Action.MANAGE,
    ("PATCH", "/v1/projects/{project}/lessons/staged/{lesson}"): Action.MANAGE,
    ("DELETE", "/v1/projects/{project}/lessons/staged/{lesson}"): Action.MANAGE,
    ("POST", "/v1/projects/{project}/lessons/staged/{lesson}/approve"): Action.MANAGE,
    ("POST", "/v1/projects/{project}/lessons/checkpoints"): Action.CHECKPOINT,
    ("POST", "/v1/projects/{project}/lessons/query"): Action.LEARN,
    ("POST", "/v1/projects/{project}/lessons/context"): Action.LEARN,
    ("GET", "/v1/projects/{project}/lessons/patterns"): Action.MANAGE,
    ("GET", "/v1/projects/{project}/lessons/patterns/{pattern}"): Action.MANAGE,
    ("PATCH", "/v1/projects/{project}/lessons/patterns/{pattern}"): Action.MANAGE,
    ("DELETE", "/v1/projects/{project}/lessons/patterns/{pattern}"): Action.MANAGE,
    ("POST", "/v1/projects/{project}/lessons/patterns/{pattern}/outcomes"): Action.LEARN,
    ("POST", "/v1/projects/{project}/lessons/patterns/{pattern}/approve"): Action.MANAGE,
    ("POST", "/v1/projects/{project}/lessons/patterns/{pattern}/reject"): Action.MANAGE,
    ("POST", "/v1/projects/{project}/lessons/patterns/{pattern}/merge"): Action.MANAGE,
    ("POST", "/v1/projects/{project}/lessons/patterns/{pattern}/split"): Action.MANAGE,
    ("GET", "/v1/projects/{project}/lessons/calibration"): Action.LEARN,
    ("GET", "/v1/projects/{project}/lessons/export"): Action.MANAGE,
    ("POST", "/v1/projects/{project}/lessons/import"): Action.MANAGE,
    # long work
    ("GET", "/v1/nodes"): Action.OPERATE,
    ("GET", "/v1/jobs"): Action.READ,
    ("GET", "/v1/jobs/{job}"): Action.READ,
    ("DELETE", "/v1/jobs/{job}"): Action.WRITE,
    ("GET", "/v1/jobs/{job}/events"): Action.READ,
    # in the format of OpenAI
    ("GET", "/v1/models"): Action.READ,
    ("GET", "/v1/models/{model:path}"): Action.READ,
    ("POST", "/v1/chat/completions"): Action.ASK,
    ("POST", "/v1/embeddings"): Action.ASK,
    # for other tools; each of them has a row of its own, in `interfaces.mcp.tools`
    ("POST", "/mcp"): Action.ASK,
}


@dataclass(frozen=True, slots=True)
class Row:
    """What a request asks for, and which action that is."""

    path: str
    action: Action | None


def row_of(method: str, path: str) -> Row | None:
    """The row of a request; None if nothing is there."""
    for pattern, template in _patterns(method):
        if pattern.fullmatch(path):
            return Row(template, POLICY[method, template])
    return None


def methods_of(path: str) -> list[str]:
    """How this path can be called; none if it is nobody's."""
    methods = dict.fromkeys(method for method, _ in POLICY if method != WS)
    taken = [method for method in methods if row_of(method, path)]
    return ["HEAD", *taken] if "GET" in taken else taken


def undecided(routes: Iterable[tuple[str, str]]) -> list[str]:
    """Routes that nobody decided about."""
    return sorted(f"{method} {path}" for method, path in routes if (method, path) not in POLICY)


@cache
def _patterns(method: str) -> list[tuple[re.Pattern[str], str]]:
    """Those that name more of a path come first."""
    templates = sorted((path for each, path in POLICY if each == method), key=lambda path: path.count("{"))
    return [(re.compile(_regex(template)), template) for template in templates]


def _regex(template: str) -> str:
    def group(match: re.Match[str]) -> str:
        return r"([^\0]+)" if match[0].endswith(":path}") else r"([^/\0]+)"

    return re.sub(r"\{[^}]+\}", group, template.replace(".", r"\."))
