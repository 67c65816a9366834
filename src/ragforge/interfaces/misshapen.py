"""What is wrong with a request, told with the names of its fields and without those of the library that found it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_MOST = 5
_LONGEST = 1_000
_BRANCH = re.compile(r"(?:constrained-)?(?:str|int|float|bool|none|bytes)|[a-z-]+\[.*")
"""Between the fields of a place stands which of several types was tried."""


def sentence(errors: Sequence[Mapping[str, Any]]) -> str:
    """The first few of what pydantic found, one for each field."""
    found: dict[str, str] = {}
    for each in sorted(errors, key=lambda error: (_is_other_type(error), -len(error["loc"]))):
        place = _place(each)
        if _is_other_type(each) and any(known.startswith(f"{place}.") for known in found):
            continue  # it may be a text or a list: what its list lacks says more
        found.setdefault(place, _wrong(each))
    told = [f"{place}: {wrong}" if place else wrong for place, wrong in found.items()]
    return "; ".join(told[:_MOST])[:_LONGEST]


def _place(error: Mapping[str, Any]) -> str:
    if error["type"] == "json_invalid":
        return ""
    steps = [str(step) for step in error["loc"]]
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        steps.append(str(error["ctx"]["discriminator"]).strip("'"))
    return ".".join(step for step in steps if not _BRANCH.fullmatch(step))


def _wrong(error: Mapping[str, Any]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "json_invalid":
        return f"this is not JSON: {context.get('error', 'it cannot be read')}"
    if kind in ("missing", "union_tag_not_found"):
        return "this is needed"
    if kind == "extra_forbidden":
        return "there is no such field"
    if kind == "string_too_short" and context.get("min_length") == 1:
        return "this may not be empty"
    if kind == "union_tag_invalid":
        return f"this can be {context['expected_tags']}"
    return str(error["msg"]).removeprefix("Value error, ").replace(" after validation", "")


def _is_other_type(error: Mapping[str, Any]) -> bool:
    return str(error["type"]).endswith("_type")
