"""Plain frozen sections, and where each value came from. Builds nothing.

Sources in rising order: defaults, `ragforge.toml` in the workspace, a file named by `--config`, `.env` of the current
folder, `.env` of the workspace, environment `RAGFORGE_<SECTION>__<FIELD>`, flags.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ragforge.domain.sizes import GB, KB, MB, size_text
from ragforge.domain.strategy import WINDOWS, Strategy
from ragforge.errors import UserError

FILE_NAME = "ragforge.toml"
PREFIX = "RAGFORGE_"
WORKSPACE_VARIABLE = "RAGFORGE_WORKSPACE"
PROVIDER_KEYS = (
    "ANTHROPIC_API_KEY",
    "COHERE_API_KEY",
    "DEEPSEEK_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GROQ_API_KEY",
    "HF_TOKEN",
    "JINA_API_KEY",
    "MISTRAL_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "TOGETHER_API_KEY",
    "VOYAGE_API_KEY",
    "XAI_API_KEY",
)
"""Secrets that are looked for by name; they are used, never shown."""

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
_UNITS = {"": 1, "B": 1, "KB": KB, "MB": MB, "GB": GB, "KIB": KIB, "MIB": MIB, "GIB": GIB}
_SHORT = {"MODELS": "store.models_dir"}


def _about(
    help: str, *, minimum: float | None = None, choices: tuple[str, ...] = (), guarded: bool = False
) -> dict[str, Any]:
    """What the reference says of a field. `guarded`: never taken from the `.env` of a folder we happen to be in,
    nor from a backup."""
    return {"help": help, "minimum": minimum, "choices": choices, "guarded": guarded}


def _setting(default: Any, help: str, **about: Any) -> Any:
    return field(default=default, metadata=_about(help, **about))


def default_models_dir(env: Mapping[str, str] = os.environ) -> Path:
    """Where weights are kept: shared by all workspaces of a user."""
    data = env.get("XDG_DATA_HOME", "")
    return (Path(data) if data else Path.home() / ".local" / "share") / "ragforge" / "models"


@dataclass(frozen=True, slots=True)
class Store:
    """Where the catalog and the models' weights are."""

    database_url: str = _setting("", "Database of the catalog; empty: SQLite in the workspace", guarded=True)
    connections: int = _setting(
        8, "Postgres: connections kept open, to catalog and indexes each; as many more when it must", minimum=1
    )
    reach_seconds: float = _setting(30.0, "Postgres: how long to wait for a server that is away", minimum=0)
    blobs: str = _setting(
        "", "Where original files are kept: a folder, or s3://BUCKET/FOLDER; empty: in the workspace", guarded=True
    )
    blobs_url: str = _setting("", "Address of S3-compatible storage; empty: that of AWS", guarded=True)
    busy_seconds: float = _setting(30.0, "How long to wait while another process writes", minimum=0)
    models_dir: Path = field(
        default_factory=default_models_dir,
        metadata=_about("Folder of models' weights; also RAGFORGE_MODELS", guarded=True),
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a project may take in."""

    file_bytes: int = _setting(100 * MB, "Largest file that is read", minimum=1)
    project_bytes: int = _setting(20 * GB, "All files of a project together", minimum=1)
    project_files: int = _setting(200_000, "Files of a project", minimum=1)


@dataclass(frozen=True, slots=True)
class Jail:
    """What one parser process may use before it is killed."""

    memory_bytes: int = _setting(GIB, "Memory of a parser process", minimum=64 * MIB, guarded=True)
    cpu_seconds: int = _setting(15, "Processor time for one file", minimum=1, guarded=True)
    wall_seconds: int = _setting(18, "Time on the clock for one file", minimum=1, guarded=True)
    processes: int = _setting(2, "Parser processes side by side", minimum=1, guarded=True)
    unsafe: bool = _setting(
        False, "Parse even where the system offers no isolation; also --unsafe-parsers", guarded=True
    )


@dataclass(frozen=True, slots=True)
class Split:
    """How the texts of a new project are split; an existing project changes by `reindex`."""

    strategy: str = _setting(
        "sections",
        "Leaves inside sections, or overlapping windows of characters or tokens",
        choices=("sections", *WINDOWS),
    )
    leaf_min: int = _setting(300, "sections: tokens of a leaf, at least", minimum=1)
    leaf_max: int = _setting(500, "sections: tokens of a leaf, at most", minimum=1)
    section_min: int = _setting(100, "sections: smaller ones join their next sibling", minimum=1)
    parent_min: int = _setting(1000, "sections: tokens of a parent, at least, where the text has them", minimum=1)
    parent_max: int = _setting(2000, "sections: tokens of a parent, at most", minimum=1)
    window_min: int = _setting(0, "chars, tokens: size of a window, at least; 0: the strategy's own", minimum=0)
    window_max: int = _setting(0, "chars, tokens: size of a window, at most; 0: the strategy's own", minimum=0)
    overlap_min: int = _setting(0, "chars, tokens: overlap, at least; 0: the strategy's own", minimum=0)
    overlap_max: int = _setting(0, "chars, tokens: overlap, at most; 0: the strategy's own", minimum=0)


@dataclass(frozen=True, slots=True)
class Embed:
    """Which model makes vectors for a new project, and how a service for it is reached."""

    model: str = _setting("minilm", "Embedder of a new project")
    fallback: str = _setting("wordllama", "Taken, and said so, when the weights of the first are missing")
    base_url: str = _setting("", "Address of an OpenAI-compatible service; empty: the provider's own", guarded=True)
    api_key_env: str = _setting("", "Name of the variable that holds the key; empty: the provider's own", guarded=True)
    threads: int = _setting(0, "Threads for local models; 0: all cores", minimum=0)
    timeout_seconds: float = _setting(30.0, "How long to wait for a service", minimum=0.1)


@dataclass(frozen=True, slots=True)
class Ingest:
    """How much is done between two commits."""

    batch_files: int = _setting(500, "Files published together, at most", minimum=1)
    batch_leaves: int = _setting(256, "Leaves embedded together", minimum=1)


@dataclass(frozen=True, slots=True)
class Index:
    """Which engines hold a project's words and vectors: files of our own on each machine, or servers for all."""

    keywords: str = _setting(
        "tantivy", "Keyword index: files of our own, Postgres or Qdrant", choices=("tantivy", "postgres", "qdrant")
    )
    vectors: str = _setting(
        "snapshot",
        "Vector index: files of our own, Chroma, Qdrant, or Postgres with pgvector",
        choices=("snapshot", "chroma", "qdrant", "pgvector"),
    )
    url: str = _setting("", "Address of a Chroma or Qdrant server; empty: embedded in the workspace", guarded=True)
    api_key_env: str = _setting("", "Name of the variable that holds the server's key; empty: none", guarded=True)
    database_url: str = _setting(
        "", "Database of postgres and pgvector indexes; empty: that of the catalog", guarded=True
    )
    exact_rows: int = _setting(20_000, "pgvector: up to so many rows each is looked at; above, HNSW", minimum=0)
    grpc: bool = _setting(False, "Qdrant: talk gRPC, on its port 6334")
    shards: int = _setting(1, "Qdrant: shards of a collection", minimum=1)
    replicas: int = _setting(1, "Qdrant: copies of each shard", minimum=1)
    write_consistency: int = _setting(1, "Qdrant: copies that must have a write before it counts", minimum=1)


@dataclass(frozen=True, slots=True)
class Search:
    """How passages are found; each can be changed per question."""

    k: int = _setting(10, "Passages that are shown", minimum=1)
    keyword_candidates: int = _setting(20, "Candidates from the keyword index", minimum=1)
    vector_candidates: int = _setting(40, "Candidates from the vector index", minimum=1)
    fusion: str = _setting("weighted", "Blend normalised scores, or reciprocal ranks", choices=("weighted", "rrf"))
    alpha: float = _setting(-1.0, "Share of the vector score, 0 to 1; -1: measured for the embedder", minimum=-1)
    reranker: str = _setting("", "cosine, cross-encoder or provider:model; empty: none")
    reranker_url: str = _setting("", "Address of a reranking service; empty: the provider's own", guarded=True)
    rerank_candidates: int = _setting(20, "Candidates that are reranked", minimum=1)
    duplicates: float = _setting(0.9, "Chunks that share this part of their words are shown once", minimum=0)
    context_chunks: int = _setting(15, "Chunks in the context, at most", minimum=1)
    context_tokens: int = _setting(6000, "Tokens of the context, at most", minimum=1)
    cached_questions: int = _setting(256, "Results kept for repeated questions; 0: none", minimum=0)


@dataclass(frozen=True, slots=True)
class Model:
    """Which language model writes answers, and how its service is reached."""

    name: str = _setting("", "provider:model, or a profile; empty: answers quote the documents, without a model")
    cheap: str = _setting("", "Model of the profile cheap; empty: model.name")
    balanced: str = _setting("", "Model of the profile balanced; empty: model.name")
    premium: str = _setting("", "Model of the profile premium; empty: model.name")
    base_url: str = _setting(
        "", "Address for the provider of model.name and for openai-compatible ones; empty: its own", guarded=True
    )
    api_key_env: str = _setting("", "Name of the variable that holds its key; empty: the provider's own", guarded=True)
    proxy: str = _setting("", "Address of a proxy; empty: as the environment says", guarded=True)
    window: int = _setting(0, "Tokens model.name reads and writes together; 0: as far as that is known", minimum=0)
    temperature: float = _setting(0.2, "How freely it writes", minimum=0)
    max_tokens: int = _setting(1024, "Tokens of an answer, at most", minimum=1)
    idle_seconds: float = _setting(60.0, "How long it may be silent", minimum=0.1)
    timeout_seconds: float = _setting(180.0, "How long an answer may take", minimum=0.1)


@dataclass(frozen=True, slots=True)
class Ask:
    """How questions are answered; each can be changed per question."""

    stages: str = _setting(
        "memory, shape, inject, gate, condense", "What is done around retrieval; leave out what you do not want"
    )
    strictness: float = _setting(0.3, "gate: 0 keeps every passage, 1 only what clearly bears on the task", minimum=0)
    file_tokens: int = _setting(4000, "inject: tokens of the files a question names", minimum=0)
    recent_turns: int = _setting(4, "memory: last turns that are always in the prompt, 3 to 5", minimum=3)
    memory_tokens: int = _setting(1000, "memory: tokens of earlier turns that bear on the question", minimum=0)
    whole_project_tokens: int = _setting(
        6000, "A project that is no larger goes into the prompt whole; 0: never", minimum=0
    )
    log: bool = _setting(True, "Keep every question in the query log, with what it took")
    log_text: bool = _setting(True, "log: also the question's words; without them, figures and ids only")
    log_days: int = _setting(30, "log: days after which a question that nobody marked is removed; 0: never", minimum=0)


@dataclass(frozen=True, slots=True)
class Learn:
    """How lessons are found: one space for all projects, so that they can be compared."""

    embedder: str = _setting("minilm", "Embedder of lessons; embed.fallback where its weights are missing")
    context_tokens: int = _setting(1200, "Tokens of what an agent is told before its task", minimum=100)


@dataclass(frozen=True, slots=True)
class Server:
    """How others reach this workspace."""

    host: str = _setting("127.0.0.1", "Address to listen on; any but a loopback address needs a key", guarded=True)
    port: int = _setting(8600, "Port to listen on; 0: any free one", minimum=0)
    hosts: str = _setting("", "Names under which it may be called, beside its address: docs.example.org", guarded=True)
    origins: str = _setting("", "Web pages that may call it: https://app.example.org", guarded=True)
    body_bytes: int = _setting(200 * MB, "Largest request", minimum=1)
    threads: int = _setting(8, "Requests that are worked on at once; more wait", minimum=1)
    waiting: int = _setting(500, "Requests that wait at most; more are sent away", minimum=1)
    uploads: int = _setting(2, "Files that are taken in at once; 0: `ragforge worker` does it", minimum=0)
    idle_seconds: float = _setting(30.0, "Patience with a client that sends or reads nothing", minimum=0.1)
    head_seconds: float = _setting(10.0, "How long the head of a request may take to come", minimum=0.1)
    events_seconds: float = _setting(60.0, "How long the events of a stream can be asked for again", minimum=0.0)


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting. `origins` tells for each key, such as `limits.file_bytes`, where its value came from."""

    workspace: Path
    store: Store = field(default_factory=Store)
    limits: Limits = field(default_factory=Limits)
    jail: Jail = field(default_factory=Jail)
    split: Split = field(default_factory=Split)
    embed: Embed = field(default_factory=Embed)
    ingest: Ingest = field(default_factory=Ingest)
    index: Index = field(default_factory=Index)
    search: Search = field(default_factory=Search)
    model: Model = field(default_factory=Model)
    ask: Ask = field(default_factory=Ask)
    learn: Learn = field(default_factory=Learn)
    server: Server = field(default_factory=Server)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Provider keys that are set, by the name of their variable."""

    def values(self) -> Iterator[tuple[str, Any]]:
        """Every key with its value, in the order of the sections."""
        for key, fact in FACTS.items():
            yield key, getattr(getattr(self, fact.section), fact.name)


SECTIONS: Mapping[str, type] = MappingProxyType(
    {
        "store": Store,
        "limits": Limits,
        "jail": Jail,
        "split": Split,
        "embed": Embed,
        "ingest": Ingest,
        "index": Index,
        "search": Search,
        "model": Model,
        "ask": Ask,
        "learn": Learn,
        "server": Server,
    }
)


class Fact(NamedTuple):
    """What is known of one setting."""

    section: str
    name: str
    kind: str
    """`size`, `int`, `float`, `bool`, `path` or `str`."""
    default: Any
    help: str
    minimum: float | None
    choices: tuple[str, ...]
    guarded: bool

    @property
    def key(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        return f"{PREFIX}{self.section}__{self.name}".upper()

    @property
    def accepts(self) -> str:
        """The accepted values, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        words = {
            "size": "a size such as 100MB or 104857600",
            "int": "a whole number",
            "float": "a number",
            "bool": "true or false",
            "path": "a path",
            "str": "text",
        }[self.kind]
        if self.minimum is None or (self.minimum == 0 and self.kind != "float"):
            return words
        return f"{words}, at least {limit_text(self.minimum) if self.kind == 'size' else f'{self.minimum:g}'}"


def _facts() -> Iterator[Fact]:
    for section, cls in SECTIONS.items():
        for f in fields(cls):
            kind = "size" if f.name.endswith("_bytes") else str(f.type).lower()
            default = None if f.default is MISSING else f.default
            yield Fact(section, f.name, kind, default, **f.metadata)


FACTS: Mapping[str, Fact] = MappingProxyType({fact.key: fact for fact in _facts()})


class Given(NamedTuple):
    """A value somebody gave, and where."""

    value: object
    origin: str
    is_text: bool
    """True where only text can be written, so that "5" means 5."""


def load(
    workspace: str | Path | None = None,
    *,
    flags: Mapping[str, Mapping[str, object]] | None = None,
    config: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    folder: str | Path | None = None,
) -> Settings:
    """Read every source. `flags` maps a flag's name to the keys it sets: `{"--set": {"jail.processes": "4"}}`."""
    env = os.environ if env is None else env
    root, root_origin = _workspace(workspace, env)
    here_file, inside_file = Path(folder or Path.cwd()) / ".env", root / ".env"
    is_inside = here_file.resolve() == inside_file.resolve()
    here, inside = {} if is_inside else read_dotenv(here_file), read_dotenv(inside_file)

    given: dict[str, Given] = {}
    given |= _from_toml(root / FILE_NAME, required=False)
    given |= _from_toml(Path(config).expanduser(), required=True) if config else {}
    given |= _from_variables({n: (v, f"{here_file}:{line}") for n, (v, line) in here.items()}, True)
    given |= _from_variables({n: (v, f"{inside_file}:{line}") for n, (v, line) in inside.items()}, False)
    given |= _from_variables({n: (v, f"environment {n}") for n, v in env.items()}, False)
    for flag, values in (flags or {}).items():
        given |= {key: Given(value, f"flag {flag}", isinstance(value, str)) for key, value in values.items()}

    sections: dict[str, dict[str, object]] = {name: {} for name in SECTIONS}
    origins = {"workspace": root_origin} | dict.fromkeys(FACTS, "default")
    for key, entry in given.items():
        fact = FACTS.get(key) or _unknown(key, entry.origin)
        sections[fact.section][fact.name] = _convert(fact, entry, root)
        origins[key] = entry.origin
    sections["store"].setdefault("models_dir", default_models_dir(env))
    built = {name: cls(**sections[name]) for name, cls in SECTIONS.items()}
    _check_split(built["split"], origins)
    _check_index(built["index"], origins)
    named = {*PROVIDER_KEYS, *(built[section].api_key_env for section in ("embed", "index", "model"))} - {""}
    names = named | {f"{provider}_API_KEY" for provider in _providers(built["model"])}
    written = {name: value for name, (value, _) in (here | inside).items()}
    secrets = {name: value for name in sorted(names) if (value := env.get(name) or written.get(name))}
    return Settings(root, **built, origins=MappingProxyType(origins), secrets=MappingProxyType(secrets))


def reloaded(settings: Settings) -> Settings:
    """The same sources read again, with what was given by flags: the workspace's own file may be another now."""
    given = {key: value for key, value in settings.values() if settings.origins.get(key, "").startswith("flag ")}
    return load(settings.workspace, flags={"as before": given})


def _providers(model: Model) -> set[str]:
    """Whose models are named, as their keys are called."""
    names = (model.name, model.cheap, model.balanced, model.premium)
    return {name.partition(":")[0].upper().replace("-", "_") for name in names if ":" in name}


def read_dotenv(path: Path) -> dict[str, tuple[str, int]]:
    """`KEY=VALUE` lines with their line numbers. Comments, `export` and quotes are known; nothing is expanded."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}", hint="make it readable UTF-8, or remove it") from error
    found: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if match := re.match(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*$", line):
            found[match[1]] = (_unquoted(match[2]), number)
    return found


def _unquoted(value: str) -> str:
    if quoted := re.match(r"""(["'])(.*)\1\s*(?:#.*)?$""", value):
        return quoted[2]
    return re.split(r"(?:^|\s+)#", value, maxsplit=1)[0]


def parse_size(text: str) -> int | None:
    """`100MB`, `1.5 GiB`, `2_000`: bytes, or None. MB are millions, MiB are 1,048,576."""
    match = re.fullmatch(r"(\d[\d_]*(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    unit = _UNITS.get(match[2].upper()) if match else None
    return None if match is None or unit is None else int(float(match[1].replace("_", "")) * unit)


def limit_text(count: float) -> str:
    """A limit as people write it: `1 GiB` if it is one exactly, else in decimal units."""
    for unit, word in ((GIB, "GiB"), (MIB, "MiB")):
        if count and count % unit == 0:
            return f"{count / unit:g} {word}"
    return size_text(count)


def template() -> str:
    """A `ragforge.toml` that changes nothing: every setting is there, as a comment."""
    lines = ["# Settings of this workspace. `ragforge config show` tells where each value comes from."]
    for section, cls in SECTIONS.items():
        lines += ["", f"[{section}]  # {(cls.__doc__ or '').splitlines()[0]}"]
        for fact in (fact for fact in FACTS.values() if fact.section == section):
            lines.append(f"# {fact.name} = {default_text(fact)}  # {fact.help}")
    return "\n".join(lines) + "\n"


def default_text(fact: Fact) -> str:
    """A setting's default as it is written in TOML."""
    if fact.kind == "path":
        return '"~/.local/share/ragforge/models"'
    if fact.kind == "size":
        return f'"{limit_text(fact.default).replace(" ", "")}"'
    if fact.kind == "bool":
        return str(fact.default).lower()
    return (
        f'"{fact.default}"'
        if fact.kind == "str"
        else f"{fact.default:g}"
        if fact.kind == "float"
        else str(fact.default)
    )


def nearest(word: str, words: Mapping[str, Any] | tuple[str, ...]) -> str:
    """The known word most like this one, or nothing."""
    import difflib

    return next(iter(difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)), "")


def _workspace(given: str | Path | None, env: Mapping[str, str]) -> tuple[Path, str]:
    if given:
        return Path(given).expanduser().absolute(), "flag --workspace"
    if value := env.get(WORKSPACE_VARIABLE):
        return Path(value).expanduser().absolute(), f"environment {WORKSPACE_VARIABLE}"
    return Path.home() / "ragforge", "default"


def _from_toml(path: Path, *, required: bool) -> dict[str, Given]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        tables = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise UserError(f"{path} does not exist", hint="give --config the path of a TOML file") from None
        return {}
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {error}", hint="correct that line") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}", hint="make it readable UTF-8") from error
    lines = _lines_of_keys(text)
    given: dict[str, Given] = {}
    for section, table in tables.items():
        where = f"{path}:{lines[section]}" if section in lines else str(path)
        if section not in SECTIONS:
            _unknown(section, where)
        if not isinstance(table, dict):
            raise UserError(f"{where}: {section} is a section, not a value", hint=f"write [{section}] on its own line")
        for name, value in table.items():
            key = f"{section}.{name}"
            given[key] = Given(value, f"{path}:{lines[key]}" if key in lines else str(path), False)
    return given


def _lines_of_keys(text: str) -> dict[str, int]:
    """Where each section and key of a TOML file stands, as far as a simple look tells."""
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[\s*([\w.-]+)\s*\]", line):
            section = header[1]
            found.setdefault(section, number)
        elif pair := re.match(r"\s*([\w.-]+)\s*=", line):
            found.setdefault(f"{section}.{pair[1]}".lstrip("."), number)
    return found


def _from_variables(variables: Mapping[str, tuple[str, str]], from_here: bool) -> dict[str, Given]:
    """Settings among environment variables. `from_here`: they come from the `.env` of the current folder."""
    given: dict[str, Given] = {}
    for name, (value, origin) in variables.items():
        rest = name.removeprefix(PREFIX)
        if rest == name or not value:
            continue
        if from_here and name == WORKSPACE_VARIABLE:
            raise _not_from_here(name, origin)
        section, separator, setting = rest.lower().partition("__")
        key = _SHORT.get(rest) or f"{section}.{setting}"
        if rest not in _SHORT and not separator:
            # A single underscore is the usual slip; other names are not ours to judge.
            if section.split("_")[0] in SECTIONS:
                _unknown(section.replace("_", ".", 1), origin, name)
            continue
        fact = FACTS.get(key) or _unknown(key, origin, name)
        if from_here and fact.guarded:
            raise _not_from_here(name, origin)
        given[key] = Given(value, origin, True)
    return given


def _not_from_here(name: str, origin: str) -> UserError:
    return UserError(
        f"{origin}: {name} is not taken from the .env of the current folder, which may be anybody's",
        hint=f"set it in the environment, in {FILE_NAME} or in the .env of the workspace",
    )


def _unknown(key: str, origin: str, variable: str = "") -> Fact:
    """Refuse a key we do not know, with the nearest one we do."""
    section, _, name = key.partition(".")
    if section in SECTIONS and not name:
        raise UserError(f"{origin}: {key} is a section, not a setting", hint=f"its settings: {_names(section)}")
    match = nearest(key, FACTS) if name else nearest(key, tuple(SECTIONS))
    subject = variable or (key if name else f"[{key}]")
    if match in FACTS:
        shown = FACTS[match].variable if variable else match
        hint = f"did you mean {shown}? It takes {FACTS[match].accepts}"
    elif match:
        hint = f"did you mean [{match}]? Its settings: {_names(match)}"
    else:
        hint = f"the sections are {', '.join(SECTIONS)}; `ragforge config show` lists every setting"
    raise UserError(f"{origin}: {subject} is not a setting", hint=hint)


def _names(section: str) -> str:
    return ", ".join(fact.name for fact in FACTS.values() if fact.section == section)


def _convert(fact: Fact, entry: Given, root: Path) -> object:
    value = _from_text(fact.kind, entry.value) if isinstance(entry.value, str) and entry.is_text else entry.value
    if fact.kind == "size" and isinstance(value, str):
        value = parse_size(value)
    expected: dict[str, type | tuple[type, ...]] = {"size": int, "int": int, "float": (int, float), "bool": bool}
    is_right = isinstance(value, expected.get(fact.kind, (str, Path))) and isinstance(value, bool) == (
        fact.kind == "bool"
    )
    if (
        not is_right
        or (fact.choices and value not in fact.choices)
        or (fact.minimum is not None and isinstance(value, int | float) and not value >= fact.minimum)
    ):
        raise UserError(f"{entry.origin}: {fact.key} cannot be {entry.value!r}", hint=f"it takes {fact.accepts}")
    if fact.kind == "path":
        return root / Path(str(value)).expanduser()
    return float(value) if fact.kind == "float" and isinstance(value, int | float) else value


def _from_text(kind: str, text: str) -> object:
    """What a piece of text means for this kind of setting; None if nothing."""
    if kind == "bool":
        return {"true": True, "false": False}.get(text.strip().lower())
    if kind in ("int", "float"):
        try:
            return int(text) if kind == "int" else float(text)
        except ValueError:
            return None
    return text


def _check_split(split: Split, origins: Mapping[str, str]) -> None:
    """The rules between the sizes are the strategy's own."""
    values = asdict(split)
    try:
        Strategy(name=values.pop("strategy"), **values)
    except ValueError as problem:
        given = {origin for key, origin in origins.items() if key.startswith("split.") and origin != "default"}
        raise UserError(f"{', '.join(sorted(given))}: [split] {problem}", hint="set them together") from problem


def _check_index(index: Index, origins: Mapping[str, str]) -> None:
    """There is one address, and what answers there is one of the two."""
    if index.url and (index.keywords, index.vectors) == ("qdrant", "chroma"):
        given = {origins[f"index.{name}"] for name in ("url", "keywords", "vectors")}
        raise UserError(
            f"{', '.join(sorted(given))}: index.url is of one server, but words are to be in Qdrant, vectors in Chroma",
            hint='set index.vectors = "qdrant" for both, or choose another index.keywords',
        )
