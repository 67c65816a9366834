"""What looks like a secret: no archive carries such a line, and no log such a word."""

from __future__ import annotations

import re
from collections.abc import Collection

SHAPES = (
    r"\brf_[A-Za-z0-9]{6,}_[A-Za-z0-9_-]+",
    r"\b(?:sk|pk|rk|gsk|xai|pa|hf|jina|glpat|gh[opsur]|github_pat|xox[abeprs])[-_][A-Za-z0-9_-]{8,}",
    r"\b(?:AKIA|ASIA|AIza)[A-Za-z0-9_-]{12,}",
    r"(?<![\w/+.-])(?=[A-Za-z/+]*\d)(?=[A-Z\d/+]*[a-z])(?=[a-z\d/+]*[A-Z])[A-Za-z0-9/+]{40}(?![\w/+.=-])",
    r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*",
    r"(?i:\bbearer\s+)[^\s\"',;]+",
    r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)",
    r"(?i:(?:(?:api|access|private)[-_]?key|secret|token|passw(?:or)?d|credentials?|authorization)"
    r"[\"']?\s*[=:]\s*[\"']?(?:(?:bearer|basic)\s+)?)[^\s\"'&,;]+",
)
"""Our own keys, those of providers (the last of them Amazon's, which have no beginning of their own), signed tokens,
keys in headers, passwords in addresses, and what is called a secret."""
IN_TEXTS = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    r"(?i:\b(?:\w+_)?pass(?:phrase)?\s*=\s*[\"']?)[^\s\"'&,;]+",
    r"(?i:\bmysql\w*\b[^\n]*?\s-p)\S+",
)
"""Beside those, in what people and agents write down: keys in armour, and passwords as commands take them."""
SHORTEST = 6
"""A shorter value is no secret, and stands in too many lines."""
_LONG = r"(?<![\w/.-])(?=[A-Za-z0-9+_=-]*\d)(?=[A-Za-z0-9+_=-]*[A-Za-z])[A-Za-z0-9+_=-]{32,}(?![\w/.-])"
"""Settings hold nothing of this kind but secrets; in a log it may be the id of a request."""
_LOOKS_SECRET = re.compile("|".join((*SHAPES, _LONG)))
_NAMES_A_VARIABLE = re.compile(r"""^\s*#?\s*api_key_env\s*=\s*["']([A-Z][A-Z0-9_]*)?["']""")
_NAMES_ANYTHING = re.compile(r"^\s*#?\s*api_key_env\s*=")


def without_secrets(text: str, known: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """The text without such lines, and what each of them sets. `known` are secrets that are in use."""
    kept: list[str] = []
    left_out: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if _is_secret(line, known):
            name = re.match(r"\s*#?\s*([\w.-]+)\s*=", line)
            left_out.append(f"line {number}" + (f" ({name[1]})" if name else ""))
            kept.append("# left out of the archive: it looked like a secret")
        else:
            kept.append(line)
    return "\n".join(kept) + "\n", tuple(left_out)


def _is_secret(line: str, known: Collection[str]) -> bool:
    if any(len(secret) >= SHORTEST and secret in line for secret in known):
        return True
    if _NAMES_ANYTHING.match(line) and not _NAMES_A_VARIABLE.match(line):
        return True  # somebody wrote the key itself where its variable's name belongs
    return _LOOKS_SECRET.search(line) is not None
