"""Servers and workers on one Postgres: `python -m bench.scale_nodes --docs FOLDER [--small]`.

Four `ragforge serve`, which take in nothing themselves, and four `ragforge worker`, each with a folder of its own.

queries   queries a second over HTTP by how many servers are asked and how many clients ask, each question another one
seen      seconds from an upload that one server acknowledged until another one finds it
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.ingest import DEFAULT_DOCS
from bench.scale_machine import Meter, Server, conditions, most_memory, per, percentile, spread
from bench.scale_processes import Processes, cpu_of, until
from ragforge import Ragforge
from ragforge.domain.cancel import Cancel

NODES = 4
SERVERS = (1, 2, 4)
CLIENTS = (1, 4, 16)
SECONDS, FEW_SECONDS = 15.0, 2.0
UPLOADS, FEW_UPLOADS = 40, 3
FEW = 40
"""One file in so many, for a quick run."""
EMBEDDER, OTHERS = "wordllama", ("wordllama", "minilm")
"""What questions are embedded with; and what one question costs with each of these is measured apart."""
PROJECT = "bench"
_WORDS = 6
_WARM_UP = 5
_PATIENCE = 3_600.0

Figures = dict[str, Any]


class Client:
    """One connection to a server that is kept open."""

    def __init__(self, address: str) -> None:
        self._address = urlsplit(address).netloc
        self._open()

    def _open(self) -> None:
        self._connection = http.client.HTTPConnection(self._address, timeout=60)

    def post(self, path: str, body: bytes, kind: str = "application/json") -> dict[str, Any]:
        self._connection.request("POST", path, body, {"Content-Type": kind})
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{path}: {answer.status} {text[:300]!r}")
        told: dict[str, Any] = json.loads(text)
        return told

    def search(self, question: str) -> list[str]:
        """The files found; never an answer that was kept."""
        told = self.post(f"/v1/projects/{PROJECT}/search", json.dumps({"question": question, "fresh": True}).encode())
        if told["degraded"]:
            raise SystemExit(f"not all engines answered: {told['degraded']}")
        return [passage["document"] for passage in told["passages"]]

    def upload(self, name: str, text: str, wait: int = 0) -> None:
        path = f"/v1/projects/{PROJECT}/files?name={name}&wait={wait}"
        self.post(path, text.encode(), "application/octet-stream")


# -- questions


def words_of(files: Sequence[Path]) -> list[list[str]]:
    """The words of each file that has some. Read before the clock starts: it takes longer than many questions."""
    return [words for file in files if len(words := file.read_text(errors="ignore").split()) > _WORDS]


def questions(texts: Sequence[Sequence[str]], seed: int) -> Iterator[str]:
    """Some words that stand together in a file, without end."""
    chosen = random.Random(seed)
    while True:
        words = chosen.choice(texts)
        start = chosen.randrange(len(words) - _WORDS)
        yield " ".join(words[start : start + _WORDS])


def asked(addresses: Sequence[str], clients: int, texts: Sequence[Sequence[str]], seconds: float) -> list[float]:
    """So many clients ask one question after the other, each always the same server. Milliseconds of each answer."""
    times: list[float] = []
    problems: list[BaseException] = []
    deadline = time.monotonic() + seconds

    def ask(address: str, seed: int) -> None:
        client = Client(address)
        try:
            for question in questions(texts, seed):
                began = time.monotonic()
                if began > deadline:
                    return
                client.search(question)
                times.append((time.monotonic() - began) * 1e3)
        except BaseException as problem:
            problems.append(problem)

    threads = [
        threading.Thread(target=ask, args=(address, seed))
        for seed, address in zip(range(clients), cycle(addresses), strict=False)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return times


def queries(servers: dict[int, str], texts: Sequence[Sequence[str]], seconds: float, server: Server) -> list[Figures]:
    pids, found = list(servers), []
    for number in SERVERS:
        addresses = [servers[pid] for pid in pids[:number]]
        asked(addresses, max(number, CLIENTS[-1]), texts, seconds / 4)  # so that all of them are warm
        for clients in CLIENTS:
            if clients >= number:
                own, whole = Meter(server=None), Meter(cpu_of(pids), server)
                times = asked(addresses, clients, texts, seconds)
                spent, of_clients = whole.read(), own.read()["cpu_s"]
                found.append(
                    {
                        "servers": number,
                        "clients": clients,
                        "queries": len(times),
                        "per_s": round(len(times) / (spent["wall_s"] or 1), 1),
                        **spread(times, "ms"),
                        "cpu_ms": per(spent["cpu_s"], len(times), 1e3, 2),
                        "postgres_cpu_ms": per(spent["postgres_cpu_s"], len(times), 1e3, 2),
                        "client_cpu_ms": per(of_clients, len(times), 1e3, 2),
                    }
                )
    return found


# -- what one node acknowledged


def seen(servers: dict[int, str], count: int) -> Figures:
    """Seconds until the other server finds a file: after the upload was received; of as many others, after their
    answer, which waited until they were taken in."""
    first, second = (Client(address) for address in list(servers.values())[:2])
    received: list[float] = []
    taken_in: list[float] = []
    for number in range(count):
        for wait, times in ((0, received), (30, taken_in)):
            word = f"quokka{number}zebu{wait}"
            name = f"{word}.md"
            first.upload(name, f"# A page\n\nThe {word} lives in the cellar of house {number}.\n", wait)
            times.append(until(_finds(second, word, name), 60, 0.005))
    return {
        "uploads": count,
        "received_p50_s": round(percentile(received, 0.5), 3),
        "received_worst_s": round(max(received), 3),
        "taken_in_p50_s": round(percentile(taken_in, 0.5), 3),
        "taken_in_worst_s": round(max(taken_in), 3),
    }


def _finds(client: Client, word: str, name: str) -> Callable[[], bool]:
    return lambda: name in client.search(word)


# -- the whole


def embedding(forge: Ragforge, texts: Sequence[Sequence[str]], count: int) -> Figures:
    """CPU ms of one question's vector, on one thread."""
    found: Figures = {}
    for name in OTHERS:
        embedder = forge._parts.embedder(name)
        given = list(islice(questions(texts, 1), _WARM_UP + count))
        for question in given[:_WARM_UP]:
            embedder.embed_query(question, Cancel())
        cpu = time.process_time()
        for question in given[_WARM_UP:]:
            embedder.embed_query(question, Cancel())
        found[name] = round((time.process_time() - cpu) / count * 1e3, 2)
    return found


def _filled(forge: Ragforge, files: Sequence[Path]) -> int:
    for number, file in enumerate(files):
        forge.upload(file, name=f"{number}-{file.name}", project=PROJECT)
    until(lambda: not any(state in ("queued", "running") for (_, state), n in forge.queue().items() if n), _PATIENCE)
    return sum(document.chunks for document in forge.documents(project=PROJECT))


def run(docs: Path, small: bool) -> Figures:
    files = sorted(path for path in docs.rglob("*") if path.is_file())[:: FEW if small else 1]
    figures: Figures = {"before": conditions(), "files": len(files), "embedder": EMBEDDER}
    texts = words_of(files)
    with ExitStack() as stack:
        server = stack.enter_context(Server())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        processes = stack.enter_context(Processes(folder, server.create(), EMBEDDER))
        forge = stack.enter_context(processes.open())
        figures["embedding_cpu_ms"] = embedding(forge, texts, 20 if small else 200)
        forge.create_project(PROJECT, embedder=EMBEDDER)
        processes.workers([f"worker{number}" for number in range(NODES)])
        figures["chunks"] = _filled(forge, files)
        servers = processes.servers([f"server{number}" for number in range(NODES)])
        figures["queries"] = queries(servers, texts, FEW_SECONDS if small else SECONDS, server)
        figures["memory"] = most_memory(servers)
        figures["seen"] = seen(servers, FEW_UPLOADS if small else UPLOADS)
    return figures | {"after": conditions()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, default=DEFAULT_DOCS, help="a folder of Markdown files")
    parser.add_argument("--small", action="store_true", help="few files and questions, to see that it works")
    given = parser.parse_args()
    if not given.docs.is_dir():
        raise SystemExit(f"no folder {given.docs}: name one with --docs")
    print(json.dumps(run(given.docs, given.small)))


if __name__ == "__main__":
    main()
