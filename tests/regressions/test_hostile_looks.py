"""A file's look is told in the parent process: no file may make that slow."""

from __future__ import annotations

import io
import time

import pytest

from ragforge.ingest.types import FileType, sniff


@pytest.mark.parametrize(
    "data",
    [
        b"<!---->" * 1_000 + b"x",
        b"<!-- a --> " * 700 + b"<p>",
        b"#!" + b"/" * 8_000,
        b"#! " + b"/a " * 2_500,
    ],
    ids=["comments", "spaced comments", "slashes", "paths"],
)
def test_looking_at_a_file_takes_no_time(data: bytes) -> None:
    began = time.process_time()
    sniff(io.BytesIO(data), "page", len(data))
    assert time.process_time() - began < 0.2


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"<!-- one --> <!-- two -->\n<html lang=en>", "html"),
        (b"<!-- one --><!doctype html><p>", "html"),
        (b"<!-- - -- -> --><body>", "html"),
        (b"<!-- <html> --> words", "text"),
        (b"<!-- never closed <html>", "text"),
        (b"#!/usr/bin/env -S python3 -u\n", "python"),
        (b"#! /bin/bash\n", "shell"),
        (b"#!/usr/local/bin/node\n", "javascript"),
        (b"#!/usr/bin/env /opt/bin/perl\n", "perl"),
    ],
)
def test_looks_are_told_apart(data: bytes, kind: str) -> None:
    found = sniff(io.BytesIO(data), "page", len(data))
    assert isinstance(found, FileType)
    assert found.name == kind
