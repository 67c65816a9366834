"""Streams of events: nothing is lost or said twice, whoever reads them and however often; memory stays bounded."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import aclosing

import anyio
import pytest
from anyio import CapacityLimiter
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.access import AccessKey, Clearance, KeyLimits, Principal, Role, Scope
from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.pending import Pending, at_once, waited
from ragforge.errors import Busy, NotFound, UserError
from ragforge.interfaces.http import streams as module
from ragforge.interfaces.http.stepping import stepped
from ragforge.interfaces.http.streams import Event, Ring, Stream, Streams, Told, frame, position_of
from ragforge.operate.access import local
from ragforge.testing.records import NOON
from tests.proof import count

CHEAP = settings(max_examples=count(20, 60), deadline=None)


def told(count: int) -> list[Told]:
    return [Told("token", f'{{"event": "token", "text": "{number}"}}') for number in range(1, count + 1)]


def of_key(name: str, concurrent: int = 0) -> Principal:
    scope = Scope(f"key:{name}", name, None, Clearance.PUBLIC)
    limits = KeyLimits(concurrent=concurrent)
    return Principal(
        scope, Role.READER, AccessKey(name, name, Role.READER, None, Clearance.PUBLIC, NOON, limits=limits)
    )


# -- the ring


@CHEAP
@given(st.integers(1, 30), st.integers(1, 8), st.data())
def test_a_ring_forgets_only_what_was_read_and_only_when_it_is_full(count: int, most: int, data: st.DataObject) -> None:
    ring, read = Ring(most_events=most), 0
    for each in told(count):
        ring.make_room(read)
        if ring.is_full:
            read = data.draw(st.integers(ring.first, ring.last))
            ring.make_room(read)
        assert not ring.is_full
        ring.add(each)
        kept = ring.after(ring.first - 1, most=100)
        assert [event.number for event in kept] == list(range(ring.first, ring.last + 1))
        assert len(kept) <= most and ring.first - 1 <= read
        assert ring.bytes == sum(len(event.data) + 200 for event in kept)
    assert ring.last == count


def test_a_ring_is_full_by_its_bytes_too_but_takes_one_event_of_any_size() -> None:
    ring = Ring(most_events=100, most_bytes=1_000)
    ring.add(Told("retrieval", "x" * 5_000))
    assert ring.is_full and len(ring.after(0)) == 1
    ring.make_room(1)
    assert not ring.is_full and ring.bytes == 0 and (ring.first, ring.last) == (2, 1)


# -- reading


async def _collect(stream: Stream, after: int, most: int) -> list[Event]:
    """What a reader gets that goes away after so many events."""
    seen: list[Event] = []
    with stream.reading(after) as reader:
        async for batch in reader.batches():
            for event in batch:
                seen.append(event)
                if len(seen) == most:
                    return seen
    return seen


@CHEAP
@given(st.integers(0, 200), st.lists(st.tuples(st.integers(1, 120), st.integers(0, 40)), max_size=6))
def test_whatever_was_read_before_the_rest_follows_once(count: int, cuts: list[tuple[int, int]]) -> None:
    """A reader is cut off again and again, and does not always know all that was sent to it."""

    async def read() -> list[Event]:
        stream = Stream("s", "me", "r", Cancel())

        async def write() -> None:
            for number, each in enumerate(told(count)):
                await stream.put(each)
                if number % 7 == 0:
                    await asyncio.sleep(0)
            stream.end()

        writing = asyncio.create_task(write())
        seen: list[Event] = []
        for most, lost in cuts:
            got = await _collect(stream, len(seen), most)
            seen += got[: max(0, len(got) - lost)]
        seen += await _collect(stream, len(seen), count + 1)
        await writing
        return seen

    events = asyncio.run(read())
    assert [(event.number, event.data) for event in events] == [(n, each.data) for n, each in enumerate(told(count), 1)]


@CHEAP
@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 3))
def test_slow_readers_slow_the_writer_down_and_miss_nothing(count: int, most: int, readers: int) -> None:
    async def read() -> tuple[list[list[Event]], int]:
        stream, largest = Stream("s", "me", "r", Cancel(), Ring(most_events=most)), 0

        async def slow(pauses: int) -> list[Event]:
            seen: list[Event] = []
            with stream.reading() as reader:
                async for batch in reader.batches():
                    seen += batch
                    for _ in range(pauses):
                        await asyncio.sleep(0)
            return seen

        reading = [asyncio.create_task(slow(number)) for number in range(readers)]
        await asyncio.sleep(0)
        for each in told(count):
            await stream.put(each)
            largest = max(largest, stream.ring.last - stream.ring.first + 1)
        stream.end()
        return await asyncio.gather(*reading), largest

    seen, largest = asyncio.run(read())
    assert largest <= most and all([event.number for event in each] == list(range(1, count + 1)) for each in seen)


def test_a_place_that_is_not_there_is_refused() -> None:
    async def read() -> None:
        stream = Stream("s", "me", "r", Cancel(), Ring(most_events=2))
        with stream.reading() as reader:
            for each in told(4):
                await stream.put(each)
                reader.position += 1
        with pytest.raises(NotFound, match="no longer kept"), stream.reading(1):
            pass
        with pytest.raises(UserError, match="4 events so far, not 5"), stream.reading(5):
            pass
        assert not stream.is_read
        stream.end()

    asyncio.run(read())


@given(st.text(max_size=20))
def test_any_last_id_is_a_place_or_refused(text: str) -> None:
    try:
        assert position_of("1.a-b", text, "") == position_of("1.a-b", "", text) >= 0
    except UserError:
        assert not text.isascii() or not text.isdigit() or len(text) > 9
    assert position_of("1.a-b", "1.a-b-17", "") == 17 and position_of("1.a-b", "1.a-b-17", "3") == 3


def test_frames_are_one_line_of_data_each() -> None:
    assert frame("s", Event(3, "token", "{}")) == b"id: s-3\nevent: token\ndata: {}\n\n"


# -- all of them


def endless(pending: Pending, ended: threading.Event) -> Iterator[Told | Pending]:
    try:
        yield Told("token", "{}")
        while True:
            yield pending
    finally:
        ended.set()


def test_a_stream_that_nobody_reads_is_given_up_and_one_that_is_read_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ABANDONED_SECONDS", 0.2)

    async def run() -> None:
        streams, me = Streams(2, 60.0, 1.0), local()
        ended = threading.Event()
        stream = streams.start(me, endless(Pending(), ended), "r", Cancel())
        with stream.reading() as reader:
            await asyncio.sleep(0.4)
            assert not stream.has_ended and not ended.is_set() and len(streams) == 1
            assert [event.name for event in await anext(reader.batches())] == ["token"]
        await asyncio.sleep(0.1)
        with stream.reading(1):  # somebody comes back
            await asyncio.sleep(0.3)
            assert not stream.has_ended
        await asyncio.sleep(0.5)
        assert stream.has_ended and ended.is_set() and len(streams) == 0
        assert [event.name for event in stream.ring.after(0)] == ["token", "error"]
        assert streams.get(me, stream.id) is stream
        await streams.close()
        with pytest.raises(NotFound):
            streams.get(me, stream.id)

    asyncio.run(run())


def test_closing_stops_all_and_leaves_nothing() -> None:
    async def run() -> None:
        streams, ended = Streams(4, 60.0, 1.0), [threading.Event() for _ in range(20)]
        begun: list[int] = []

        def one(number: int) -> Iterator[Told | Pending]:
            begun.append(number)
            yield from endless(Pending(), ended[number])

        for number in range(20):
            streams.start(local(), one(number), "r", Cancel())
        while len(begun) < 20:  # what never began has nothing to end
            await asyncio.sleep(0.01)
        await streams.close()
        assert all(each.is_set() for each in ended) and len(streams) == 0
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_events_are_kept_for_their_time_and_as_long_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KEPT_BYTES", 5_000)

    async def run() -> None:
        streams, me = Streams(1, 0.3, 1.0), local()
        ids = []
        for _ in range(3):
            stream = streams.start(me, iter([Told("done", "x" * 2_000)]), "r", Cancel())
            while not stream.has_ended:
                await asyncio.sleep(0.01)
            ids.append(stream.id)
        with pytest.raises(NotFound):
            streams.get(me, ids[0])
        assert streams.get(me, ids[1]) and streams.get(me, ids[2])
        await asyncio.sleep(0.5)
        with pytest.raises(NotFound):
            streams.get(me, ids[2])

    asyncio.run(run())


@pytest.mark.parametrize(("limit", "most"), [("MOST_STREAMS", 2), ("MOST_BYTES", 300)])
def test_there_are_never_too_many(limit: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, limit, most)

    async def run() -> None:
        streams, ended = Streams(2, 60.0, 1.0), threading.Event()
        for name in ("a", "b"):
            streams.start(of_key(name), endless(Pending(), ended), "r", Cancel())
        await asyncio.sleep(0.1)
        with pytest.raises(Busy):
            streams.start(of_key("c"), endless(Pending(), ended), "r", Cancel())
        await streams.close()

    asyncio.run(run())


def test_all_together_hold_no_more_than_there_is_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The more are at work, the less each holds of what nobody has read; with room again it goes on."""
    most = 60_000
    monkeypatch.setattr(module, "MOST_BYTES", most)
    monkeypatch.setattr(module, "LARGEST_RING", most // 2)

    async def several() -> None:
        streams = Streams(4, 60, 60)
        many = [
            streams.start(local(), iter([Told("token", "x" * 800)] * 200), "r", cancel)
            for cancel in (Cancel(), Cancel(), Cancel(), Cancel(), Cancel(), Cancel())
        ]
        await anyio.sleep(0.3)
        held = [each.ring.bytes for each in many]
        assert sum(held) <= most + 6 * 1_000 and min(held) > 5_000, held
        for each in many[1:]:
            each.stop()
        await anyio.sleep(0.3)
        assert many[0].ring.bytes > 2 * held[0]
        await streams.close()

    anyio.run(several)


def test_of_a_key_with_a_limit_the_stream_that_nobody_reads_gives_way() -> None:
    async def run() -> None:
        streams, key = Streams(2, 60.0, 1.0), of_key("a", concurrent=2)
        first, second = (streams.start(key, endless(Pending(), threading.Event()), "r", Cancel()) for _ in range(2))
        with first.reading():
            third = streams.start(key, endless(Pending(), threading.Event()), "r", Cancel())
            await asyncio.sleep(0.2)
            assert second.has_ended and not first.has_ended and not third.has_ended
        await streams.close()

    asyncio.run(run())


def test_ids_tell_which_worker_has_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGFORGE_WORKER", "3")

    async def run() -> str:
        streams = Streams(1, 60.0, 1.0)
        id = streams.start(local(), iter([Told("done", "{}")]), "r", Cancel()).id
        await streams.close()
        return id

    assert asyncio.run(run()).startswith("3.")


# -- an iterator in threads


def failing() -> Iterator[str | Pending]:
    yield "first"
    raise NotFound("gone")


def test_what_came_before_a_problem_is_brought_before_it() -> None:
    async def run() -> list[str]:
        seen: list[str] = []
        with pytest.raises(NotFound):
            async for each in stepped(failing(), CapacityLimiter(1)):
                seen.append(each)
        return seen

    assert asyncio.run(run()) == ["first"]


def test_what_there_is_comes_before_a_step_that_takes_a_while() -> None:
    def slow() -> Iterator[str | Pending]:
        yield "first"
        yield at_once()
        time.sleep(0.5)
        yield "second"

    async def run() -> list[float]:
        began = time.monotonic()
        return [time.monotonic() - began async for _ in stepped(slow(), CapacityLimiter(1))]

    first, second = asyncio.run(run())
    assert first < 0.4 < second
    assert list(waited(slow())) == ["first", "second"]


@pytest.mark.parametrize("natively", [True, False])
def test_a_step_that_blocks_ends_when_its_reader_is_cancelled(natively: bool) -> None:
    """A cancel of asyncio and one of anyio both end it at once, and the iterator is closed by nobody twice."""
    ended, cancel = threading.Event(), Cancel()

    def blocks() -> Iterator[str | Pending]:
        try:
            yield "first"
            yield at_once()
            cancel.wait(30)
            cancel.check()
        finally:
            ended.set()

    async def run() -> float:
        came = asyncio.Event()

        async def reads() -> None:
            async with aclosing(stepped(blocks(), CapacityLimiter(1), cancel)) as steps:
                async for _ in steps:
                    came.set()

        if natively:
            task = asyncio.create_task(reads())
            await came.wait()
            await asyncio.sleep(0.1)
            began = time.monotonic()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(reads)
                await came.wait()
                await asyncio.sleep(0.1)
                began = time.monotonic()
                group.cancel_scope.cancel()
        return time.monotonic() - began

    assert asyncio.run(run()) < 2 and ended.is_set()


def test_while_nothing_comes_no_thread_is_held() -> None:
    async def run() -> None:
        threads, pending = CapacityLimiter(1), [Pending() for _ in range(50)]
        ended = threading.Event()

        async def reads(each: Pending) -> None:
            async for _ in stepped(endless(each, ended), threads):
                pass

        tasks = [asyncio.create_task(reads(each)) for each in pending]
        deadline = time.monotonic() + 10
        while threads.borrowed_tokens or threads.statistics().tasks_waiting:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        for each in tasks:
            each.cancel()
        await asyncio.wait(tasks)

    asyncio.run(run())


def test_a_cancelled_iterator_says_so() -> None:
    def cancelled() -> Iterator[str | Pending]:
        yield "first"
        raise Cancelled

    async def run() -> None:
        async for _ in stepped(cancelled(), CapacityLimiter(1)):
            pass

    with pytest.raises(Cancelled):
        asyncio.run(run())


def test_a_key_without_a_limit_has_as_many_as_the_server_gives() -> None:
    async def run() -> None:
        streams, key = Streams(2, 60.0, 1.0), of_key("a")
        begun = [streams.start(key, endless(Pending(), threading.Event()), "r", Cancel()) for _ in range(5)]
        await asyncio.sleep(0.1)
        assert len(streams) == 5 and not any(each.has_ended for each in begun)
        await streams.close()

    asyncio.run(run())
