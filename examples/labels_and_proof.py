"""Labels, another splitter, and a deletion with its proof. Needs no key and no network.

python examples/labels_and_proof.py
"""

from __future__ import annotations

import tempfile
from importlib.resources import as_file, files
from pathlib import Path

from ragforge import Ragforge
from ragforge.domain.access import Clearance
from ragforge.domain.library import Labels
from ragforge.domain.strategy import Strategy


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        as_file(files("ragforge") / "samples") as samples,
        Ragforge.open(Path(folder) / "workspace") as forge,
    ):
        forge.create_project("Nordlicht", embedder="wordllama")
        report = forge.add(samples, project="nordlicht", labels=Labels(tags=("2026",)))
        print(f"{len(report.files)} files in {report.seconds:.1f} s, {len(report.failed)} failed")

        forge.label(["employee-handbook.docx"], project="nordlicht", confidentiality=Clearance.CONFIDENTIAL)
        forge.enable(["memo-2023-returns.txt"], False, project="nordlicht")
        for document in forge.documents(project="nordlicht"):
            use = "on " if document.enabled else "off"
            print(f"{use} {document.labels.confidentiality.name.lower():<12} {document.chunks:>2} {document.name}")

        print("\nWhere the words were spoken:")
        for chunk in forge.chunks("support-meeting.vtt", project="nordlicht"):
            print(f"  {chunk.locator.label():<8} {chunk.text.splitlines()[0][:70]}")

        for progress in forge.reindexing(project="nordlicht", strategy=Strategy("tokens")):
            print(f"re-indexing: {progress.stage} {progress.done}/{progress.total}")

        for proof in forge.removing(["memo-2023-returns.txt"], project="nordlicht"):
            print(f"\n{proof.name}: {proof.bytes_scanned:,} bytes searched, erased: {proof.erased}")


if __name__ == "__main__":
    main()
