"""Where a server may listen. It loads little: a supervisor of workers needs no more of the server."""

from __future__ import annotations

from ragforge.domain.hosts import is_loopback
from ragforge.errors import NotAllowed
from ragforge.operate.access import Access


def refuse_open_door(access: Access, host: str) -> None:
    """Without keys whoever reaches the server owns the workspace: then only this machine may."""
    if not is_loopback(host) and not access.are_there_keys():
        raise NotAllowed(
            f"there are no keys, so everybody who reaches {host} could read and change everything",
            hint="make one first: ragforge keys new NAME --role reader; or listen on 127.0.0.1",
        )
