"""Parsers by name. Only this module is imported outside the jail; it imports a parser when it is run."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from ragforge.domain.documents import Parsed, ParseFailure, Reason
from ragforge.ingest.parse.text import CannotParse


@dataclass(frozen=True, slots=True)
class Parser:
    """Where a parser lives, and its version: raise it when the same bytes would give another text."""

    module: str
    version: int = 1
    jailed: bool = True


PARSERS: dict[str, Parser] = {
    "text": Parser("ragforge.ingest.parse.plain", jailed=False),
    "markdown": Parser("ragforge.ingest.parse.markdown", jailed=False),
    "table": Parser("ragforge.ingest.parse.table"),
    "data": Parser("ragforge.ingest.parse.data"),
    "code": Parser("ragforge.ingest.parse.code"),
    "transcript": Parser("ragforge.ingest.parse.transcript"),
    "pdf": Parser("ragforge.ingest.parse.pdf"),
    "office": Parser("ragforge.ingest.parse.office"),
    "html": Parser("ragforge.ingest.parse.html"),
    "mail": Parser("ragforge.ingest.parse.mail"),
    "rtf": Parser("ragforge.ingest.parse.rtf"),
    "xml": Parser("ragforge.ingest.parse.xml"),
}


def fingerprint(name: str) -> str:
    """Names a parser and its version; part of a document version's id."""
    return f"{name}/{PARSERS[name].version}"


def run(name: str, data: bytes, file_name: str) -> Parsed | ParseFailure:
    """Parse with the named parser. Whatever a library raises on bad bytes becomes a failure with a reason."""
    try:
        parsed: Parsed = import_module(PARSERS[name].module).parse(data, file_name)
    except CannotParse as problem:
        return problem.failure
    except MemoryError:
        return ParseFailure(Reason.MEMORY, "parsing needs more memory than allowed", "split the file into smaller ones")
    except RecursionError:
        return ParseFailure(Reason.HOSTILE, "nested too deeply", "save the file anew from the program that made it")
    except Exception as problem:  # a parser library may raise anything on damaged bytes
        return ParseFailure(
            Reason.CORRUPT,
            f"damaged or not really this type ({type(problem).__name__}: {str(problem)[:200]})",
            "open it in the program that made it and save it again",
        )
    if not parsed.text.strip():
        return ParseFailure(Reason.EMPTY, "the file holds no text", "nothing to search in it; remove it or add text")
    return parsed
