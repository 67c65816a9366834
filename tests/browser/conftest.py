"""One browser for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.driving import CHROMIUM, chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM:
        pytest.skip("no Chromium is installed here: apt-get install chromium, or set CHROMIUM")
    with chromium() as found:
        yield found
