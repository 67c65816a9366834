"""Web pages elsewhere may call the server if their origin is in the settings, and no others."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.forge import open_forge
from tests.serving import serving

APP, OTHER = "https://app.example.org", "https://other.example.org"
ALLOWED = "access-control-allow-origin"


def test_O4_pages_of_known_origins_may_call(swift_path: Path) -> None:
    with open_forge(swift_path, server__origins=f"{APP}/") as forge, serving(forge) as address:
        wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        asked = httpx.options(f"{address}/v1/projects", headers={"Origin": APP, **wanted})
        assert (asked.status_code, asked.headers[ALLOWED]) == (200, APP)
        answer = httpx.get(f"{address}/v1/projects", headers={"Origin": APP})
        assert (answer.status_code, answer.headers[ALLOWED]) == (200, APP)
        assert "X-Request-ID" in answer.headers["access-control-expose-headers"]
        assert httpx.get(f"{address}/v1/projects/none", headers={"Origin": APP}).headers[ALLOWED] == APP
        for headers in ({"Origin": OTHER}, {"Origin": OTHER, **wanted}, {"Origin": "null"}):
            refused = httpx.request(
                "OPTIONS" if wanted.keys() <= headers.keys() else "GET", f"{address}/v1/projects", headers=headers
            )
            assert refused.status_code in (400, 403) and ALLOWED not in refused.headers


def test_O4_without_a_setting_no_page_may(swift_path: Path) -> None:
    with open_forge(swift_path) as forge, serving(forge) as address:
        for origin in (APP, "null"):
            answer = httpx.get(f"{address}/v1/projects", headers={"Origin": origin})
            assert answer.status_code == 403 and ALLOWED not in answer.headers
        assert ALLOWED not in httpx.get(f"{address}/v1/projects", headers={"Origin": address}).headers
