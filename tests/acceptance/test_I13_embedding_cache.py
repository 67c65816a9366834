"""I13: what was embedded once is not embedded again; a provider's troubles are ridden out or cost nothing twice."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragforge import Ragforge
from ragforge.adapters.embedders.provider import Patience, ProviderEmbedder
from ragforge.domain.library import Outcome
from ragforge.errors import QuotaExceeded
from ragforge.settings import load
from ragforge.testing import provider
from ragforge.testing.provider import ProviderStub
from tests.forge import SMALL, WatchedEmbedder, faults, fill, open_forge, prose, text_of

MODEL = "openai:text-embedding-3-small"


def test_I13_only_changed_text_is_embedded_again(swift_path: Path) -> None:
    path = swift_path / "note.md"
    path.write_text("".join(prose(number) for number in range(8)))
    embedder = WatchedEmbedder()
    with open_forge(swift_path / "workspace", embedder) as forge:
        forge.add(path, project="p")
        first = len(embedder.texts)
        assert first == len(set(embedder.texts)) == len(forge.chunks("note.md", project="p")) > 8
        os.utime(path)
        forge.add(path, project="p")
        assert len(embedder.texts) == first, "a touched file"
        path.write_text(path.read_text() + prose(99))
        forge.add(path, project="p")
        again = embedder.texts[first:]
        assert 0 < len(again) < first / 2, "only what is new"
        assert not set(again) & set(embedder.texts[:first])
        shutil.copy(path, swift_path / "copy.md")
        before = len(embedder.texts)
        assert forge.add(swift_path / "copy.md", project="p").count(Outcome.DUPLICATE) == 1
        assert len(embedder.texts) == before, "the same bytes under another name"


@pytest.fixture
def stub() -> Iterator[ProviderStub]:
    with ProviderStub() as running:
        yield running


def connected(workspace: Path, stub: ProviderStub) -> tuple[Ragforge, ProviderEmbedder]:
    patience = Patience(request_seconds=5, budget_seconds=30, first_pause_seconds=0.02)
    embedder = ProviderEmbedder(MODEL, key="sk-secret", base_url=stub.base_url, patience=patience)
    settings = load(workspace, flags={"the test": {"ingest.batch_leaves": 4}})
    forge = Ragforge.open(settings, embedders={MODEL: embedder})
    if not forge.projects():
        forge.create_project("p", strategy=SMALL, embedder=MODEL)
    return forge, embedder


def test_I13_passing_troubles_of_a_provider_cost_time_only(swift_path: Path, stub: ProviderStub) -> None:
    fill(swift_path / "docs", 6)
    stub.script(provider.RATE_LIMIT_SECONDS, provider.SERVER_ERROR, provider.UNAVAILABLE, provider.RESET)
    forge, embedder = connected(swift_path / "workspace", stub)
    with forge:
        report = forge.add(swift_path / "docs", project="p")
        assert report.count(Outcome.READY) == 6 and faults(forge) == []
    embedder.close()
    assert all(count <= 5 for count in Counter(stub.texts).values())


def test_I13_after_a_providers_failure_only_the_rest_is_embedded(swift_path: Path, stub: ProviderStub) -> None:
    path = swift_path / "large.md"  # one file of several calls
    path.write_text("".join(prose(number, 24) for number in range(30)))
    stub.script(*[provider.NORMAL] * 3, provider.QUOTA)
    forge, embedder = connected(swift_path / "workspace", stub)
    with forge:
        with pytest.raises(QuotaExceeded) as refused:
            forge.add(path, project="p")
        assert refused.value.hint
        assert forge.documents(project="p") == []
        paid = [text for call in stub.calls[:3] for text in call.texts]
        assert len(paid) >= 12 and len(stub.calls) == 4
        assert forge.add(path, project="p").count(Outcome.READY) == 1
        assert not set(paid) & {text for call in stub.calls[4:] for text in call.texts}, "paid twice"
        assert f"# Page {29}" in text_of(forge, "large.md")
        assert faults(forge) == []
    embedder.close()


def test_I13_a_failure_in_the_middle_keeps_the_files_before_it(swift_path: Path) -> None:
    fill(swift_path / "docs", 10)
    embedder = WatchedEmbedder()

    def fail_later() -> None:
        if embedder.calls == 3:
            raise QuotaExceeded("the account is used up", hint="add credit")

    embedder.before = fail_later
    with open_forge(swift_path / "workspace", embedder, ingest__batch_files=2) as forge:
        with pytest.raises(QuotaExceeded):
            forge.add(swift_path / "docs", project="p")
        kept = len(forge.documents(project="p"))
        assert kept == 4 and faults(forge) == []
        report = forge.add(swift_path / "docs", project="p")
        assert (report.count(Outcome.UNCHANGED), report.count(Outcome.READY)) == (kept, 10 - kept)
        assert max(Counter(embedder.texts).values()) == 1
