"""Lines that look like secrets are left out; settings that do not are kept as they are."""

from __future__ import annotations

import pytest

from ragforge.operate.logs import HIDDEN, Redactor
from ragforge.operate.secrets import without_secrets

SHAPED = (
    "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9",
    "Bearer abc.def-ghi",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9",
    "api-key: zq81-lamp-9",
    "access_token=zq81",
    "aws_secret_access_key = zq81-lamp-9",
    "aws wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AKIAIOSFODNN7EXAMPLE",
    "github_pat_11ABCDEFG0abcdefghijkl",
    "ghs_0123456789abcdef",
    "xai-abcdefghijklmnop1234",
    "xoxb-123456789012-abcdef",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "https://user:word@example.org/",
)
ORDINARY = (
    "Explain parameterization-of-the-query and skill-based-assessments.",
    "It costs 5 tokens; max_tokens = 512.",
    "The folder is /Users/anna/Documents2/projects/of-the-year/templates",
    "Keep the secret of the house, and say which password rules there are.",
    "0123456789abcdef",
)


@pytest.mark.parametrize("line", SHAPED)
def test_the_log_hides_what_an_archive_leaves_out(line: str) -> None:
    assert HIDDEN in Redactor()(f"it said {line}")


@pytest.mark.parametrize("line", ORDINARY)
def test_ordinary_words_are_nobodys_secret(line: str) -> None:
    assert Redactor()(line) == line and without_secrets(f"{line}\n", ()) == (f"{line}\n", ())


@pytest.mark.parametrize(
    "line",
    [
        'database_url = "postgresql://me:pass@db/x"',
        "# key: sk-abcdefghijkl1234",
        'api_key_env = "sk-proj-abcdefgh12345678"',
        'api_key_env = "lowercase-thing"',
        'password = "x"',
        "token: abc",
        'proxy = "http://u:p@proxy:3128"',
        "AKIAIOSFODNN7EXAMPLE",
        'x = "0123456789abcdef0123456789abcdef"',
        "rf_0123456789ab_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "the planted one: correct horse",
        *SHAPED,
    ],
)
def test_left_out(line: str) -> None:
    kept, left_out = without_secrets(f"[model]\n{line}\nmax_tokens = 5\n", ["correct horse"])
    assert line not in kept and len(left_out) == 1 and left_out[0].startswith("line 2")
    assert kept.splitlines()[0] == "[model]" and kept.splitlines()[2] == "max_tokens = 5"


@pytest.mark.parametrize(
    "line",
    [
        'api_key_env = "MY_OPENAI_KEY"',
        'api_key_env = ""  # Name of the variable that holds its key',
        "max_tokens = 1024",
        'database_url = "postgresql://ragforge@localhost/ragforge"',
        'base_url = "http://localhost:11434/v1"',
        'name = "openai:gpt-5-mini"',
        'models_dir = "/a/very/long/path/of/many/folders/0123456789/models"',
        "k = 10",
    ],
)
def test_kept(line: str) -> None:
    assert without_secrets(f"{line}\n", ["short", "", "10"]) == (f"{line}\n", ())
