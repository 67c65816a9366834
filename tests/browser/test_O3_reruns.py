"""O3: many tabs rerun at once. One engine serves them all, no lock error, and memory stays flat."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ragforge import Ragforge
from ragforge.settings import load
from tests.browser.driving import ui
from tests.browser.reruns import Tab
from tests.forge import fill
from tests.process import resident
from tests.proof import count, record

_TABS = 8
_SETTLE_SECONDS = 11.0
"""A server gives memory back every ten seconds."""


def test_O3_reruns_from_eight_threads_share_one_engine(tmp_path: Path) -> None:
    reruns, warm = count(10, 25), count(10, 50)
    workspace = tmp_path / "workspace"
    with Ragforge.open(load(workspace)) as forge:
        forge.create_project("p", embedder="wordllama")
        forge.add(fill(tmp_path / "files", 12), project="p")
    with ui(workspace) as serving, ThreadPoolExecutor(_TABS) as threads:
        address, problems = serving.address, list[str]()
        stop = threading.Event()

        def look(times: int) -> int:
            with Tab(address) as tab:
                for _ in range(times):
                    tab.rerun("project=p")
                problems.extend(tab.problems)
                return tab.reruns

        def disturb() -> None:
            """Somebody else writes all the time."""
            with Ragforge.open(load(workspace)) as forge:
                documents = [document.id for document in forge.documents(project="p")]
                switched = False
                while not stop.wait(0.02):
                    forge.enable(documents[:3], switched, project="p")
                    switched = not switched

        writer = threading.Thread(target=disturb)
        writer.start()
        try:
            list(threads.map(look, [warm] * _TABS))
            time.sleep(_SETTLE_SECONDS if warm > 20 else 0)
            before = resident(serving.process.pid)
            done = sum(threads.map(look, [reruns] * _TABS))
            time.sleep(_SETTLE_SECONDS if warm > 20 else 0)
            after = resident(serving.process.pid)
        finally:
            stop.set()
            writer.join()
        assert done == _TABS * reruns
        assert not problems
        assert len(serving.told("opened")) == 1
        wrong = [line for line in serving.lines if any(word in line for word in ("locked", "thread", "Traceback"))]
        assert not wrong
    growth = (after - before) / before
    record("ui_reruns", tabs=_TABS, reruns=done, memory_growth=round(growth, 3), problems=len(problems))
    assert growth < 0.05
