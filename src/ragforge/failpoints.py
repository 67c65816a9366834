"""Places where a test may make the program die or fail: `RAGFORGE_FAILPOINT=<name>:<kill|raise|enospc>[@n]`.

Without `RAGFORGE_TESTING=1` the variable is refused, so that no installation can be told to fail by accident.
"""

from __future__ import annotations

import errno
import os
import signal

from ragforge.errors import StoreError, UserError

_passed: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Fail here if a test asked for it; `@n` means at the n-th time."""
    order = os.environ.get("RAGFORGE_FAILPOINT")
    if order is None:
        return
    if os.environ.get("RAGFORGE_TESTING") != "1":
        raise UserError("RAGFORGE_FAILPOINT is for tests", hint="unset it, or set RAGFORGE_TESTING=1")
    where, _, what = order.partition(":")
    what, _, number = what.partition("@")
    if where != name:
        return
    _passed[name] = _passed.get(name, 0) + 1
    if _passed[name] != int(number or 1):
        return
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "enospc":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    raise StoreError(f"failpoint {name}")
