"""Words in Postgres: full text search finds the rows, and they are ranked by BM25 as our other engines compute it.

Our own terms go in, past every parser and dictionary of the server: a row's are a `tsvector` that has as many positions
of a term as the row has of it. How many is read off `ts_rank`: for one term and equal weights it is the sum of 1/n²
over them, by π²/6.

Common words are in a large part of all rows. So the rarest words of a question are sought first. The worst of k rows
found by them is a score to be reached; what each word can add to a score at most is known (`peak`); and only rows that
hold enough of the words to reach it are looked at. What is found is the same.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ragforge.adapters.keywords.bm25 import K1, B, complete_first, idf, rounded_length, saturation
from ragforge.adapters.postgres import Sent
from ragforge.adapters.postgres_index import (
    SCHEMA,
    PostgresIndex,
    PostgresReader,
    State,
    copying,
    filter_of,
    numbers,
    ranked,
    run,
)
from ragforge.adapters.segments.rows import last_of_each
from ragforge.adapters.vectors.rows import NOTHING, finds_nothing, scores_of
from ragforge.domain.retrieval import Allowed, Keys, KeywordRows, QueryWords, Ranked, Scores

if TYPE_CHECKING:
    import psycopg

_COLUMNS = "key, document, length, rounded, terms"
_TERMS = "_terms"
"""What the name of the table of all terms ends with."""
_LONGEST_TERM = 2_000
"""Bytes; Postgres takes 2,046. Of longer ones, and of what is no text there, a hash stands for the term."""
_MOST_COUNTED = 255
"""Occurrences in one row that are told apart: what more would add is next to nothing."""
_LARGEST_ROW = 900_000
"""Bytes of all terms of a row; Postgres takes a megabyte."""
_FIRST_ROWS = 200
"""Rows that hold one of the rarest words, as many as are sought first."""
_FEW_ROWS = 2_000
"""So many are looked at without ado."""
_MOST_CLAUSES = 200
"""Of a condition on the words that a row must hold: finding out costs time, too."""
_MOST_TERMS = 40
"""That such a condition is made of."""
_NOISE = 1e-5
"""How far sums of 32-bit numbers may lie apart, relative to them."""
_DRIFT = 1.5
"""When rows have grown longer by this factor, peaks are computed anew: they would be too high to be of use."""
_POSITIONS = [struct.pack(f">H{count}H", count, *range(1, count + 1)) for count in range(_MOST_COUNTED + 1)]


def _rank_steps() -> Sent:
    """Between which values of `ts_rank` a term occurs once, twice, ... as an array of the server's."""
    ranks = np.cumsum(1 / np.arange(1, _MOST_COUNTED + 1) ** 2) / 1.64493406685
    body = np.empty(_MOST_COUNTED, [("size", ">i4"), ("value", ">f8")])
    body["size"], body["value"] = 8, (np.concatenate([[0], ranks[:-1]]) + ranks) / 2
    return Sent(np.array([1, 0, 701, _MOST_COUNTED, 1], ">i4").tobytes() + body.tobytes())


_STEPS = _rank_steps()


@dataclass(frozen=True, slots=True)
class Sought:
    """A term of a question that rows hold."""

    term: str
    holding: int
    """Rows that hold it."""
    weight: float
    most: float
    """What it can add to a score at most."""


class PostgresWordsReader(PostgresReader):
    """Searches by BM25. Of a short question, rows that hold a term of every group come first."""

    def search(self, words: QueryWords, k: int, allowed: Allowed) -> Ranked:
        groups = _groups(words)
        sought = self._sought(groups)
        if finds_nothing(k, allowed) or not sought:
            return NOTHING

        def complete() -> Ranked:
            if not all(any(term in sought for term in group) for group in groups):
                return NOTHING
            every = " & ".join(f"({_any_of(group)})" for group in groups)
            return self._top(every, sought.values(), k, allowed)

        return complete_first(len(groups), k, complete, lambda: self._best(list(sought.values()), k, allowed))

    def score(self, words: QueryWords, keys: Keys) -> Scores:
        values: dict[str, object] = {"keys": numbers(np.unique(keys))}
        scored = self._scored(self._sought(_groups(words)).values(), "key = ANY (%(keys)s::bigint[])", values)
        known = ranked(self._ask(scored, values) if len(keys) else [])
        return scores_of(keys, known.keys, known.scores)

    def score_new(self, words: QueryWords, rows: Sequence[Mapping[str, int]]) -> Scores:
        groups = _groups(words)
        safe = {_safe(term): term for group in words.groups for term in group}
        terms = list(dict.fromkeys(term for group in groups for term in group))
        holding = self._statistics(terms)
        weights = {safe[term]: idf(max(1, self.rows), max(1, holding.get(term, (0, 0.0))[0])) for term in terms}
        scores = np.zeros(len(rows), np.float32)
        for place, counts in enumerate(rows):
            length = sum(counts.values()) - counts.get("", 0)
            scores[place] = sum(
                weight * saturation(min(counts[term], _MOST_COUNTED), length, self._average)
                for term, weight in weights.items()
                if counts.get(term)
            )
        return scores

    def holding(self, terms: Sequence[str]) -> dict[str, int]:
        known = self._statistics([_safe(term) for term in terms])
        return {term: known.get(_safe(term), (0, 0.0))[0] for term in terms}

    def terms_starting(self, prefix: str, limit: int) -> list[str]:
        """Terms that stand in the table of all terms, so that a deletion can be proved."""
        find = f"SELECT term FROM {self._table}{_TERMS} WHERE starts_with(term, %(prefix)s)"  # noqa: S608
        found = self._ask(f"{find} ORDER BY term LIMIT %(limit)s", {"prefix": prefix, "limit": limit})
        return [term for (term,) in found]

    @property
    def _average(self) -> float:
        """The usual length of a row."""
        return self._state.facts["terms"] / max(1, self.rows) or 1.0

    def _statistics(self, terms: Sequence[str]) -> dict[str, tuple[int, float]]:
        """Of terms that rows hold: how many, and the most that a term counts for in one of them."""
        find = f"SELECT term, holding, peak FROM {self._table}{_TERMS} WHERE term = ANY (%(terms)s::text[])"  # noqa: S608
        found = self._ask(find, {"terms": list(terms)}) if terms else []
        return {term: (holding, peak) for term, holding, peak in found}

    def _sought(self, groups: Iterable[tuple[str, ...]]) -> dict[str, Sought]:
        terms = list(dict.fromkeys(term for group in groups for term in group))
        known, sought = self._statistics(terms), {}
        longer = max(1.0, self._average / (self._state.facts["reference"] or 1.0))
        for term in terms:
            if term in known:
                holding, peak = known[term]
                weight = (1 + K1) * idf(self.rows, holding)
                # rows count as shorter than when the peak was computed
                most = longer * peak / (1 - peak + longer * peak)
                sought[term] = Sought(term, holding, weight, weight * most)
        return sought

    def _best(self, sought: list[Sought], k: int, allowed: Allowed) -> Ranked:
        """The k best rows that hold any of the terms."""
        everything = _any_of(each.term for each in sought)
        if sum(each.holding for each in sought) <= _FEW_ROWS:
            return self._top(everything, sought, k, allowed)
        rarest = _rarest(sought, max(_FIRST_ROWS, 10 * k))
        found = self._top(_any_of(each.term for each in rarest), sought, k, allowed)
        if len(rarest) == len(sought):
            return found
        if len(found) < k:
            return self._top(everything, sought, k, allowed)
        to_reach = float(found.scores[-1]) * (1 - _NOISE)
        if sum(each.most for each in sought if each not in rarest) < to_reach:
            return found
        return self._top(reaching(sought, to_reach), sought, k, allowed)

    def _top(self, condition: str, sought: Iterable[Sought], k: int, allowed: Allowed) -> Ranked:
        """The k best allowed rows that meet a condition on their terms."""
        values: dict[str, object] = {"condition": condition, "limit": k}
        where = f"terms @@ %(condition)s::tsquery{filter_of(allowed, values)}"
        scored = self._scored(sought, where, values)
        return ranked(self._ask(f"{scored} ORDER BY score DESC, key LIMIT %(limit)s", values))

    def _scored(self, sought: Iterable[Sought], where: str, values: dict[str, object]) -> str:
        """Keys and scores of rows; what the statement needs goes into `values`."""
        values |= {"steps": _STEPS, "least": K1 * (1 - B), "slope": K1 * B / self._average}
        columns, score = ["key", "%(least)s::float8 + %(slope)s::float8 * rounded AS norm"], ["0"]
        for place, each in enumerate(sought):
            values |= {f"term{place}": _quoted(each.term), f"weight{place}": each.weight}
            rank = f"ts_rank('{{1,1,1,1}}', terms, %(term{place})s::tsquery)::float8"
            columns.append(f"width_bucket({rank}, %(steps)s::float8[]) AS n{place}")
            score.append(f"%(weight{place})s::float8 * n{place} / (n{place} + norm)")
        counted = f"SELECT {', '.join(columns)} FROM {self._table} WHERE {where} OFFSET 0"  # noqa: S608 - counted once
        return f"SELECT key, ({' + '.join(score)})::real AS score FROM ({counted}) counted"  # noqa: S608


class PostgresWords(PostgresIndex[KeywordRows]):
    """A table of rows with their terms, and one of all terms with what is known of each."""

    engine = "postgres"
    kind = "words"
    parts = ("", _TERMS)

    def pin(self) -> PostgresWordsReader:
        return PostgresWordsReader(self._place, *self._pinned())

    def _fill(self, connection: psycopg.Connection[Any], table: str, rows: Iterable[KeywordRows]) -> State:
        _make_tables(connection, table)
        count = length = 0
        with copying(connection, table, _COLUMNS, "FORMAT binary, FREEZE") as copy:
            for part in rows:
                for row in _encoded(part):
                    copy.write(row.data)
                    count, length = count + 1, length + row.length
        return _finished(connection, State(table, 0, count, dead=False, facts={"terms": length}))

    def _change(self, connection: psycopg.Connection[Any], state: State, put: KeywordRows, removed: Keys) -> State:
        gone, lost_terms = _take_out(connection, state.table, np.union1d(put.keys, removed))
        count = length = 0
        with copying(connection, state.table, _COLUMNS, "FORMAT binary") as copy:
            for row in _encoded(put):
                copy.write(row.data)
                count, length = count + 1, length + row.length
        rows, terms = state.rows - gone + count, int(state.facts["terms"]) - lost_terms + length
        average, reference = terms / max(1, rows) or 1.0, state.facts["reference"]
        if average > _DRIFT * reference:
            _count_anew(connection, state.table, average)
            reference = average
        else:
            _count(connection, state.table, reference, numbers(np.unique(put.keys)))
        run(connection, "SELECT gin_clean_pending_list(%s::regclass)", (f"{SCHEMA}.{_words_index(state.table)}",))
        facts = {"terms": terms, "reference": reference}
        return replace(state, rows=rows, dead=state.dead or gone > 0, facts=facts)

    def _copy(self, connection: psycopg.Connection[Any], state: State, table: str) -> State:
        _make_tables(connection, table)
        run(connection, f"INSERT INTO {SCHEMA}.{table} SELECT * FROM {SCHEMA}.{state.table} ORDER BY key")  # noqa: S608
        return _finished(connection, replace(state, table=table))

    def _examine(self, connection: psycopg.Connection[Any], state: State) -> Iterator[str]:
        table = f"{SCHEMA}.{state.table}"
        look = f"SELECT count(*), coalesce(sum(length), 0) FROM {table}"  # noqa: S608
        [(count, length)] = run(connection, look).fetchall()
        if count != state.rows:
            yield f"{state.rows:,} rows are counted, {count:,} are there"
        if length != state.facts["terms"]:
            yield f"{state.facts['terms']:,.0f} words are counted, {length:,} are there"
        told = f'ts_stat(%s) s FULL JOIN {table}{_TERMS} t ON t.term = s.word COLLATE "C"'
        compare = f"SELECT count(*) FROM {told} WHERE s.ndoc IS DISTINCT FROM t.holding"  # noqa: S608
        [(wrong,)] = run(connection, compare, (f"SELECT terms FROM {table}",)).fetchall()  # noqa: S608
        if wrong:
            yield f"of {wrong:,} words it is wrongly known in how many rows they are"


# -- the server's side


def _make_tables(connection: psycopg.Connection[Any], table: str) -> None:
    """Terms stand in the row itself and as they are: each is looked at once for every word of a question."""
    run(
        connection,
        f"CREATE TABLE {SCHEMA}.{table} (key bigint NOT NULL, document bigint NOT NULL, length integer NOT NULL,"
        " rounded integer NOT NULL, terms tsvector STORAGE EXTERNAL NOT NULL) WITH (toast_tuple_target = 8160)",
    )
    run(
        connection,
        f'CREATE TABLE {SCHEMA}.{table}{_TERMS} (term text COLLATE "C" PRIMARY KEY, holding bigint NOT NULL,'
        " peak real NOT NULL)",
    )


def _words_index(table: str) -> str:
    return f"{table}_gin"


def _finished(connection: psycopg.Connection[Any], state: State) -> State:
    """With what makes full tables quick to search, and all terms counted."""
    table, average = state.table, state.facts["terms"] / max(1, state.rows) or 1.0
    run(connection, f"ALTER TABLE {SCHEMA}.{table} ADD PRIMARY KEY (key)")
    run(connection, f"CREATE INDEX ON {SCHEMA}.{table} (document)")
    run(connection, "SET LOCAL maintenance_work_mem = '256MB'")
    run(connection, f"CREATE INDEX {_words_index(table)} ON {SCHEMA}.{table} USING gin (terms)")
    _count(connection, table, average, None)
    run(connection, f"ANALYZE {SCHEMA}.{table}")
    run(connection, f"ANALYZE {SCHEMA}.{table}{_TERMS}")
    return replace(state, facts={"terms": state.facts["terms"], "reference": average})


def _count(connection: psycopg.Connection[Any], table: str, average: float, keys: Sent | None) -> None:
    """Add what rows hold to the table of all terms; `average` is the length of a row by which a peak is told."""
    values = {"least": K1 * (1 - B), "slope": K1 * B / average, "keys": keys}
    some = "" if keys is None else " WHERE key = ANY (%(keys)s::bigint[])"
    times = "cardinality(positions)"
    share = f"max({times} / ({times} + %(least)s::float8 + %(slope)s::float8 * rounded))"
    run(
        connection,
        f"INSERT INTO {SCHEMA}.{table}{_TERMS} AS known (term, holding, peak)"  # noqa: S608
        f" SELECT lexeme, count(*), {share} FROM {SCHEMA}.{table}, unnest(terms){some} GROUP BY lexeme"
        " ON CONFLICT (term) DO UPDATE"
        " SET holding = known.holding + excluded.holding, peak = greatest(known.peak, excluded.peak)",
        {name: value for name, value in values.items() if value is not None},
    )


def _count_anew(connection: psycopg.Connection[Any], table: str, average: float) -> None:
    run(connection, f"DELETE FROM {SCHEMA}.{table}{_TERMS}")  # noqa: S608
    _count(connection, table, average, None)


def _take_out(connection: psycopg.Connection[Any], table: str, keys: Keys) -> tuple[int, int]:
    """Remove rows, and them from what is known of their terms. Returns how many, and their lengths together."""
    values = {"keys": numbers(keys)}
    gone = f"DELETE FROM {SCHEMA}.{table} WHERE key = ANY (%(keys)s::bigint[]) RETURNING length, terms"  # noqa: S608
    lost = "SELECT lexeme, count(*) AS times FROM gone, unnest(tsvector_to_array(terms)) AS lexeme GROUP BY lexeme"
    less = (
        f"UPDATE {SCHEMA}.{table}{_TERMS} SET holding = holding - times FROM lost WHERE term = lexeme"  # noqa: S608
        " RETURNING term, holding"
    )
    found = run(
        connection,
        f"WITH gone AS ({gone}), lost AS ({lost}), less AS ({less})"  # noqa: S608
        " SELECT NULL, count(*), coalesce(sum(length), 0) FROM gone"
        " UNION ALL SELECT term, 0, 0 FROM less WHERE holding = 0",
        values,
    ).fetchall()
    [(rows, length)] = [(rows, length) for term, rows, length in found if term is None]
    unheld = [term for term, *_ in found if term is not None]
    if unheld:
        drop = f"DELETE FROM {SCHEMA}.{table}{_TERMS} WHERE term = ANY (%s::text[]) AND holding = 0"  # noqa: S608
        run(connection, drop, (unheld,))
    return int(rows), int(length)


# -- rows on their way


@dataclass(frozen=True, slots=True)
class _Row:
    """A row as the server writes it itself, and how many terms it has."""

    data: bytes
    length: int


def _encoded(rows: KeywordRows) -> Iterator[_Row]:
    """Each key once: the last of equal ones counts."""
    keys, documents = rows.keys.tolist(), rows.documents.tolist()
    for place in last_of_each(rows.keys).tolist():
        counts = Counter(rows.terms[place])
        length = len(rows.terms[place]) - counts.pop("", 0)
        terms = _tsvector(counts)
        head = struct.pack(
            ">hiqiqiiiii",
            *(5, 8, keys[place], 8, documents[place]),
            *(4, length, 4, rounded_length(length), len(terms)),
        )
        yield _Row(head + terms, length)


def _tsvector(counts: Mapping[str, int]) -> bytes:
    """Terms with as many positions as they occur. Of a row that is too large, the last ones are left out."""
    pieces, size = [], 0
    for term, count in counts.items():
        word = term if term.isalnum() and len(term) < _LONGEST_TERM // 4 else _safe(term)
        piece = word.encode() + b"\0" + _POSITIONS[min(count, _MOST_COUNTED)]
        size += len(piece)
        if size > _LARGEST_ROW:
            break
        pieces.append(piece)
    return struct.pack(">i", len(pieces)) + b"".join(pieces)


def _safe(term: str) -> str:
    """A term as Postgres can hold it."""
    if term.isalnum() and len(term) < _LONGEST_TERM // 4:
        return term
    data = term.encode(errors="surrogatepass")
    if b"\0" not in data and len(data) <= _LONGEST_TERM and _is_text(data):
        return term
    return f"\x01{hashlib.sha256(data).hexdigest()}"


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# -- questions


def _groups(words: QueryWords) -> list[tuple[str, ...]]:
    groups = (tuple(dict.fromkeys(_safe(term) for term in group if term)) for group in words.groups)
    return list(dict.fromkeys(filter(None, groups)))


def _quoted(term: str) -> str:
    """A term that is no syntax."""
    doubled = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"


def _any_of(terms: Iterable[str]) -> str:
    return " | ".join(map(_quoted, terms))


def _rarest(sought: Iterable[Sought], rows: int) -> list[Sought]:
    """The rarest terms that together are in about so many rows."""
    chosen: list[Sought] = []
    for each in sorted(sought, key=lambda each: each.holding):
        chosen.append(each)
        rows -= each.holding
        if rows <= 0:
            break
    return chosen


def reaching(sought: Sequence[Sought], to_reach: float) -> str:
    """A condition that every row meets whose terms can add up to so much.

    Where there are many terms it is one on the strongest alone: a row may be taken to hold all others.
    """
    strongest = sorted(sought, key=lambda each: -each.most)
    for counted in range(min(len(strongest), _MOST_TERMS), 0, -1):
        rest = sum(each.most for each in strongest[counted:])
        if rest >= to_reach:
            break
        try:
            return _Condition(strongest[:counted]).needed(0, to_reach - rest)
        except _TooManyClauses:
            continue
    return _any_of(each.term for each in strongest)


class _TooManyClauses(Exception):
    """A condition would be longer than it is worth."""


class _Condition:
    """Which of some terms, strongest first, a row must hold."""

    def __init__(self, strongest: Sequence[Sought]) -> None:
        self._terms = strongest
        self._clauses = 0

    def needed(self, start: int, to_reach: float) -> str:
        """Of the terms from `start` on; all together they reach it."""
        self._clauses += 1
        if self._clauses > _MOST_CLAUSES:
            raise _TooManyClauses
        first, rest = self._terms[start], sum(each.most for each in self._terms[start + 1 :])
        left = to_reach - first.most
        either = [_quoted(first.term) if left <= 0 else f"({_quoted(first.term)} & ({self.needed(start + 1, left)}))"]
        if rest >= to_reach:
            either.append(self.needed(start + 1, to_reach))
        return " | ".join(either)
