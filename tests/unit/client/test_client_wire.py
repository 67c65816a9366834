"""Addresses as people write them, and hints in the words of the client."""

from __future__ import annotations

import re

import pytest

from ragforge.client import RemoteForge
from ragforge.client.discovery import RemoteDiscovery
from ragforge.client.lessons import RemoteLessons
from ragforge.client.wire import address_of, raised_there
from ragforge.errors import UserError
from ragforge.interfaces.hints import HTTP

CALL = re.compile(r"(?:GET|POST|PATCH|PUT|DELETE) /")


@pytest.mark.parametrize("written", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"])
def test_an_address_may_name_the_version(written: str) -> None:
    assert address_of(written) == "http://h:1"
    assert address_of("https://h/below/v1") == "https://h/below"


@pytest.mark.parametrize("written", ["127.0.0.1:8600", "localhost", "ftp://h", ""])
def test_what_is_no_address_is_refused_at_once(written: str) -> None:
    with pytest.raises(UserError, match="is no address of a server") as problem:
        RemoteForge(written)
    assert problem.value.hint == "begin with http:// or https://"


def test_every_call_in_a_hint_is_told_as_a_method() -> None:
    calls = [name.replace(r"\1", "abc") for name in HTTP.values() if CALL.match(name)]
    assert len(calls) > 8
    parts = {None: RemoteForge, "lessons": RemoteLessons, "discovery": RemoteDiscovery}
    for call in calls:
        hint = raised_there({"code": "not_found", "message": "no", "hint": f"{call} shows them"}).hint
        method = re.match(r"(?:(lessons|discovery)\.)?(\w+)\(", hint)
        whose = parts[method[1]] if method else RemoteForge
        assert method and hasattr(whose, method[2]) and not CALL.search(hint), hint
