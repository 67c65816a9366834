"""What users import, what that loads, and what the source must never do."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ragforge
from tests.office_files import docx, paragraph
from tests.pdf_files import pdf

SOURCE = Path(ragforge.__file__).parent
PARSERS = (
    "bs4", "defusedxml", "docx", "lxml", "magika", "mammoth", "markitdown", "openpyxl", "pandas", "pdfminer", "pptx",
    "pypdf", "pypdfium2", "webvtt", "yaml",
)  # fmt: skip
HEAVY = ("numpy", "sqlalchemy", "alembic", "onnxruntime", "tokenizers", "wordllama", "watchfiles", *PARSERS)


def loaded_after(script: str, names: tuple[str, ...]) -> list[str]:
    """Which of these modules a fresh process has after the script."""
    tail = f"\nimport sys; print(*sorted(set({names!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script + tail], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


def test_the_public_names() -> None:
    assert ragforge.__all__ == ["Ragforge", "__version__"]
    methods = {name for name in vars(ragforge.Ragforge) if not name.startswith("_")}
    assert methods == {
        "accept_uploads", "access", "acting", "add", "adding", "agent", "agents", "answering", "answering_model",
        "artifact", "artifacts", "ask", "backing_up", "backup", "begin_conversation", "cancel_job", "check", "chunks",
        "close", "compare_evaluations", "content", "conversation", "conversation_markdown", "conversations",
        "counters", "create_project", "deployment", "discovery", "doctor", "document", "document_kinds", "documents",
        "edit_artifact", "embedded", "enable", "enqueue", "evaluating", "evaluation", "evaluations", "explain",
        "export_artifact", "exporting", "find", "give_feedback", "importing", "importing_questions", "inbox", "job",
        "jobs", "label", "language_models", "lessons", "logged", "making", "mark_turn", "measured", "migrating",
        "models", "neighbour", "nodes", "open", "outside", "perform", "places", "project", "project_text",
        "project_text_versions", "projects", "prompt", "prune_log", "pull_model", "query_log", "question_sets",
        "questions", "queue", "ready", "rebuilding", "reindexing", "remove_artifacts", "remove_conversation",
        "remove_project", "remove_turn", "removing", "rename_conversation", "rename_project", "rendered",
        "require_embedder", "restoring", "rollups", "search", "spent", "stream", "syncing", "take_back", "taking_in",
        "text", "text_estimate", "tuning", "turn_of", "turns", "upload", "usual_strategy", "walls", "watching",
        "when_ended", "worker", "write_project_text",
    }  # fmt: skip
    with pytest.raises(AttributeError):
        _ = ragforge.Nothing


def test_the_command_line_starts_without_anything_heavy() -> None:
    assert loaded_after("from ragforge.interfaces.cli.reference import cli_page; cli_page()", HEAVY) == []
    assert loaded_after("import ragforge", (*HEAVY, "ragforge.app")) == []


def test_no_parser_library_is_loaded_where_the_workspace_is_open(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.docx").write_bytes(docx(paragraph("Oak chairs are light.")))
    (docs / "a.pdf").write_bytes(pdf([[(72, 700, "Walnut desks are heavy.")]]))
    (docs / "a.html").write_text("<!doctype html><html><body><p>Pine shelves are cheap.</p></body></html>")
    (docs / "a.md").write_text("# Wood\n\nBeech is hard.\n")
    (docs / "a.yaml").write_text("wood: ash\n")
    script = f"""
from pathlib import Path
from tests.forge import open_forge
with open_forge(Path({str(tmp_path / "workspace")!r})) as forge:
    assert len(forge.add({str(docs)!r}, project="p").failed) == 0
    assert len(forge.documents(project="p")) == 5
"""
    assert loaded_after(script, PARSERS) == []


def nodes() -> Iterator[tuple[Path, ast.Import | ast.ImportFrom | ast.Call]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom | ast.Call):
                yield path.relative_to(SOURCE), node


def test_the_source_never_runs_data() -> None:
    """No pickle, marshal, eval, exec, shell or unsafe YAML: what is read is never executed."""
    found = []
    for path, node in nodes():
        where = f"{path}:{node.lineno}"
        if not isinstance(node, ast.Call):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [f"{where} import {name}" for name in modules if name.split(".")[0] in _FORBIDDEN_MODULES]
            continue
        last = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if last in _LAST_WORDS and (name := ast.unparse(node.func)) in _FORBIDDEN_CALLS:
            found.append(f"{where} {name}()")
        for keyword in node.keywords:
            if keyword.arg == "shell" and ast.unparse(keyword.value) != "False":
                found.append(f"{where} shell=")
            if keyword.arg == "allow_pickle" and ast.unparse(keyword.value) != "False":
                found.append(f"{where} allow_pickle=")
    assert found == []


_FORBIDDEN_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
_FORBIDDEN_CALLS = {
    "eval", "exec", "compile", "os.system", "os.popen", "yaml.load", "yaml.load_all", "yaml.unsafe_load",
    "yaml.full_load", "subprocess.getoutput", "subprocess.getstatusoutput", "torch.load",
}  # fmt: skip
_LAST_WORDS = {call.rpartition(".")[2] for call in _FORBIDDEN_CALLS}
