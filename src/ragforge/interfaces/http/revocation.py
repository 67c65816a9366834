"""A key that is revoked, or expires, ends what is still done for it: within a second, and whatever that is.

One look at the catalog every 0.4 seconds serves everybody who waits for a key, and there is none while nobody does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
import anyio.to_thread
from anyio import CapacityLimiter

from ragforge.domain.access import AccessKey, Principal
from ragforge.errors import RagforgeError
from ragforge.operate.access import Access

POLL_SECONDS = 0.4


class Revocations:
    """Who waits for which key. It lives in the event loop's thread; only the catalog is asked in another."""

    def __init__(self, access: Access, seconds: float = POLL_SECONDS) -> None:
        self._access = access
        self._seconds = seconds
        self._waiting: dict[AccessKey, tuple[Principal, dict[object, Callable[[], None]]]] = {}
        self._poll: asyncio.Task[None] | None = None
        self._lookups = CapacityLimiter(1)

    @asynccontextmanager
    async def guarded_stream(
        self, principal: Principal, farewell: Callable[[], Awaitable[None]] | None = None
    ) -> AsyncIterator[None]:
        """What is done here is cancelled when the key works no more.

        `farewell` is said at once, though the work may take a while to stop: a thread cannot be interrupted.
        """
        last_words: list[asyncio.Future[None]] = []
        with anyio.CancelScope() as work:

            def stop() -> None:
                if farewell is not None:  # first: work that answers when it is cancelled comes too late then
                    last_words.append(asyncio.ensure_future(farewell()))
                work.cancel()

            with self._told(principal, stop):
                yield
        for words in last_words:
            await words

    @contextmanager
    def _told(self, principal: Principal, stop: Callable[[], None]) -> Iterator[None]:
        if principal.key is None:
            yield
            return
        key, me = principal.key, object()
        self._waiting.setdefault(key, (principal, {}))[1][me] = stop
        if self._poll is None or self._poll.done():
            self._poll = asyncio.create_task(self._polling())
        try:
            yield
        finally:
            if key in self._waiting:
                waiting = self._waiting[key][1]
                waiting.pop(me, None)
                if not waiting:
                    del self._waiting[key]

    async def _polling(self) -> None:
        while self._waiting:
            await asyncio.sleep(self._seconds)
            principals = [principal for principal, _ in self._waiting.values()]
            for key in await anyio.to_thread.run_sync(self._lost, principals, limiter=self._lookups):
                _, waiting = self._waiting.pop(key, (None, {}))
                for stop in waiting.values():
                    stop()

    def _lost(self, principals: list[Principal]) -> list[AccessKey]:
        """Those whose key works no more. While the catalog cannot be read, nobody knows: it is asked again."""
        try:
            return [each.key for each in principals if each.key is not None and not self._access.still(each)]
        except RagforgeError:
            return []
