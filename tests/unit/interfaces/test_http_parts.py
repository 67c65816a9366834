"""Forms as they come over the line: however they are cut, the same files and fields come out."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.adapters.locks import FileLock
from ragforge.interfaces.http.parts import Form
from ragforge.operate.inbox import Inbox
from tests.proof import count

NAMES = st.text(st.characters(exclude_characters='"\\\r\n;\x00', exclude_categories=["Cs"]), min_size=1, max_size=20)


def form(files: list[tuple[str, bytes]], tags: list[str]) -> bytes:
    parts = [(f'name="file"; filename="{name}"', data) for name, data in files]
    parts += [('name="tags"', tag.encode()) for tag in tags]
    body = b"".join(
        f"--edge\r\nContent-Disposition: form-data; {said}\r\n\r\n".encode() + data + b"\r\n" for said, data in parts
    )
    return body + b"--edge--\r\n"


@settings(max_examples=count(20, 60), deadline=None)
@given(
    files=st.lists(st.tuples(NAMES, st.binary(max_size=300)), min_size=1, max_size=4),
    tags=st.lists(NAMES, max_size=3),
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=20),
)
def test_however_it_is_cut_the_same_comes_out(files: list[tuple[str, bytes]], tags: list[str], cuts: list[int]) -> None:
    body, place, number = form(files, tags), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        inbox = Inbox(Path(folder) / "inbox", FileLock)
        inbox.open(set)
        with Form(inbox.receive, "multipart/form-data; boundary=edge") as parts:
            while place < len(body):
                size = cuts[number % len(cuts)]
                parts.feed(body[place : place + size])
                place, number = place + size, number + 1
            parts.finish()
            came = [(each.name, inbox.path(each.inbox).read_bytes()) for each in parts.received]
            assert came == files and parts.fields.get("tags", []) == tags
        inbox.close()
        assert [path.name for path in (Path(folder) / "inbox").iterdir()] == ["lock"], "it was not accepted"
