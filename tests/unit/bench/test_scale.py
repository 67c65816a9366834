"""The parts of the scaling benchmark that compute: trees of processes, made chunks, sizes on paper, tables."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from bench.retrieval import kept
from bench.scale import PAGE
from bench.scale_machine import Stat, cpu_of_trees, percentile, running, stat_of
from bench.scale_made import BATCH, DIMENSION, IN_A_FILE, Made
from bench.scale_page import UNKNOWN, table, tables
from bench.scale_sizing import Assumed, Measured, measured, needs, search_ms

RESULTS: dict[str, Any] = {
    "million": {
        "postgres": {
            "tenth": {"chunks": 100_000, "query": {"plain": {"cpu_ms": 10.0}}},
            "whole": {
                "chunks": 1_100_000,
                "query": {"plain": {"cpu_ms": 60.0}},
                "load": {"chunks": 1_000_000},
                "follow": {"cpu_s": 200.0},
            },
            "disk": {"catalog": 3.3e9, "originals": 1.1e9, "words": 0.55e9, "vectors": 2.2e9},
        }
    },
    "nodes": {
        "chunks": 20_000,
        "memory": 2e8,
        "embedding_cpu_ms": {"wordllama": 1.0, "minilm": 4.0},
        "queries": [
            {"per_s": 50.0, "cpu_ms": 99.0, "postgres_cpu_ms": 99.0},
            {"per_s": 90.0, "cpu_ms": 9.0, "postgres_cpu_ms": 3.0},
        ],
    },
    "workers": {"minilm": {"1": {"chunks": 1_000, "cpu_s": 60.0, "postgres_cpu_s": 2.0, "memory": 4e8}}},
    "engines": {
        "1000": {"tantivy": {"all": {"cpu_ms": 99.0}}},
        "20000": {"tantivy": {"all": {"cpu_ms": 0.4}}},
        "100000": {
            "tantivy": {"all": {"cpu_ms": 0.8}},
            "pgvector, HNSW": {"bytes": 4e8, "all": {"postgres_cpu_ms": 5.0}},
        },
    },
}
"""As the parts print them, with figures that are easy to compute with."""


def need(role: str, what: str, results: dict[str, Any] = RESULTS) -> tuple[float | None, float | None]:
    [found] = [each for each in needs(measured(results), Assumed()) if (each.role, each.what) == (role, what)]
    return found.many, found.one


# -- processes


def test_a_name_with_brackets_does_not_shift_the_figures() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    line = f"7 (a) b (c) S 3 {' '.join(['0'] * 9)} {ticks} {2 * ticks} {3 * ticks} {4 * ticks} 20 0"
    assert stat_of(line) == Stat(3, 10.0)


def test_a_tree_is_counted_with_all_below_it_and_nothing_else() -> None:
    known = {1: Stat(0, 100.0), 5: Stat(1, 2.0), 6: Stat(5, 3.0), 7: Stat(6, 4.0), 8: Stat(1, 50.0)}
    assert cpu_of_trees([5], known) == 9.0
    assert cpu_of_trees([5, 8], known) == 59.0
    assert cpu_of_trees([99], known) == 0.0


def test_what_a_child_of_a_child_burnt_is_seen_also_after_its_end() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    below = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); print(flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", below], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        assert cpu_of_trees([process.pid]) >= 0.25
        assert running()[process.pid].parent == os.getpid()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.5, 3.0), (0.95, 4.0), (1.0, 4.0)])
def test_a_percentile_is_a_value_that_was_measured(share: float, value: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], share) == value


# -- made chunks


def test_the_same_seed_makes_the_same_chunks_and_another_one_others() -> None:
    first, again = Made(BATCH).batch(0), Made(BATCH).batch(0)
    assert first.texts == again.texts and np.array_equal(first.vectors, again.vectors)
    assert Made(BATCH, seed=8).batch(0).texts != first.texts


def test_a_smaller_project_is_the_beginning_of_the_larger_one() -> None:
    made = Made(3 * BATCH)
    assert made.first(BATCH + 1).chunks == BATCH
    assert made.first(BATCH).batch(0).texts == made.batch(0).texts


def test_chunks_are_whole_files_of_unit_vectors_and_no_two_are_alike() -> None:
    made = Made(BATCH + IN_A_FILE)
    batches = [made.batch(number) for number in range(made.batches)]
    assert [len(batch.ids) for batch in batches] == [BATCH, IN_A_FILE]
    texts = [text for batch in batches for text in batch.texts]
    assert len(set(texts)) == len(texts) == made.chunks
    assert not set(batches[0].documents) & set(batches[1].documents)
    assert np.allclose(np.linalg.norm(batches[0].vectors, axis=1), 1.0, atol=1e-5)
    assert batches[0].vectors.shape == (BATCH, DIMENSION)


def test_a_question_is_nearest_to_the_chunk_it_was_made_of() -> None:
    made = Made(BATCH)
    held = made.batch(0)
    for query in made.queries(20):
        nearest = held.texts[int(np.argmax(held.vectors @ query.vector))].split()
        assert set(query.text.split()) <= set(nearest)


# -- on paper


def test_a_search_costs_what_was_measured_over_http_with_the_larger_model_and_a_larger_project() -> None:
    m = measured(RESULTS)
    assert search_ms(m, 20_000) == pytest.approx(9 - 1 + 4)
    assert search_ms(m, 100_000) == pytest.approx(12 + 80_000 * 50 / 1_000_000)


def test_of_several_runs_the_one_with_the_most_queries_counts() -> None:
    assert measured(RESULTS).http_ms == 9.0


def test_cores_are_for_the_load_that_is_planned() -> None:
    many, one = need("API", "cores")
    assert many == pytest.approx(1_000 * 16 / 1_000 / 0.6)
    assert one == pytest.approx(1_000 * (12 + (100e6 - 20_000) * 0.4 / 80_000) / 1_000 / 0.6)


def test_there_are_never_fewer_machines_than_copies() -> None:
    few = replace(Assumed(), queries_per_s=1.0)
    [found] = [each for each in needs(measured(RESULTS), few) if each.what == "machines"]
    assert found.many == few.copies


def test_disk_and_memory_come_from_bytes_of_a_chunk() -> None:
    assert need("Postgres", "disk, GB")[0] == pytest.approx(2 * 100e6 * 3_000 / 1e9)
    assert need("API", "disk of each, GB") == pytest.approx((2 * 100e6 * 2_500 / 1e9, 2 * 100e6 * 500 / 1e9))
    assert need("API", "memory of each, GB")[0] == pytest.approx(0.2 + 0.1 * 100e6 * 2_500 / 1e9)


def test_workers_take_in_everything_in_the_days_assumed() -> None:
    assert need("workers", "cores")[0] == pytest.approx(100e6 / (7 * 86_400) * 0.06 / 0.6)


def test_each_server_indexes_what_all_workers_bring() -> None:
    followed = need("API", "cores of each, to follow the first load")[0]
    assert followed == pytest.approx(100e6 / (7 * 86_400) * 200e-6 / 0.6)


def test_from_one_size_no_growth_is_told() -> None:
    results = {**RESULTS, "engines": {"100000": RESULTS["engines"]["100000"]}}
    assert measured(results).words_growth_ms is None
    assert need("API", "cores", results) == (need("API", "cores")[0], None)


def test_a_graph_grows_with_the_logarithm_of_its_rows() -> None:
    assert need("vector server", "cores")[1] == pytest.approx(1_000 * 5 * 8 / 5 / 1_000 / 0.6)


@pytest.mark.parametrize("part", RESULTS)
def test_what_rests_on_something_unmeasured_is_not_told(part: str) -> None:
    left = {name: results for name, results in RESULTS.items() if name != part}
    before, after = (needs(measured(results), Assumed()) for results in (RESULTS, left))
    lost = [new for old, new in zip(before, after, strict=True) if (old.many, old.one) != (new.many, new.one)]
    assert lost
    for each in lost:
        assert None in (each.many, each.one)


def test_nothing_is_told_of_what_nobody_measured() -> None:
    empty = measured({})
    assert {getattr(empty, each.name) for each in fields(Measured)} == {None}
    assert all(each.one is None for each in needs(empty, Assumed()))


# -- the page


def test_a_page_without_figures_says_so_and_names_every_assumption() -> None:
    page = tables({})
    assert "Not measured yet: million, workers, nodes, queue, engines" in page
    assert all(f"| `{name}` | {value} |" in page for name, value, _ in Assumed().told())
    assert f"| API | cores | {UNKNOWN} | {UNKNOWN} |" in page


def test_the_page_is_of_the_figures_that_are_kept() -> None:
    assert f"-->\n\n{tables(kept()['scale'])}\n\n<!--" in PAGE.read_text(), "python -m bench.scale --page writes it"


def ran(files_per_s: float, wall_s: float, cpu_s: float) -> dict[str, Any]:
    spent = {"wall_s": wall_s, "cpu_s": cpu_s, "postgres_cpu_s": 0.0, "busy_cores": cpu_s / wall_s}
    return {"files": 100, "chunks": 900, "files_per_s": files_per_s, "blocked": {}, **spent}


def test_what_a_second_worker_brings_is_told_by_cores_and_by_what_a_file_costs() -> None:
    machine = {"load": 0.1, "cores": 2, "reference": {"python_ms": 1.0, "numpy_ms": 1.0}}
    runs = {"1": ran(10.0, 10.0, 10.0), "2": ran(16.0, 6.25, 12.5)}
    told = table("workers", {"wordllama": runs, "before": machine, "after": machine})
    assert "| wordllama | 2 | 100 | 900 | 16 | 1.6 |" in told and "- wordllama, 2: 2 ÷ 1.25" in told
