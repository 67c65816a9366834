"""The Linux calls Python does not offer: namespaces, capabilities and Landlock.

Each wall says whether it stands; a kernel without it is no error.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

NOBODY = 65534

_PR_SET_PDEATHSIG, _PR_SET_KEEPCAPS, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 8, 36, 38
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1 << 1, 1 << 2
_CAPABILITY_VERSION_3 = 0x20080522


@cache
def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def prctl(option: int, first: int, second: int = 0) -> None:
    checked(libc().prctl(option, *map(ctypes.c_ulong, (first, second, 0, 0))))


def die_with_parent() -> None:
    """Be killed when the parent dies. A change of user undoes this, so it is called after that."""
    prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def forbid_new_privileges() -> None:
    """No program started from here may gain rights."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def adopt_orphans() -> None:
    """Become the parent of grandchildren whose parent died, so that they can be ended."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


# --- network namespace


def leave_network() -> bool:
    """Move this process, and all it starts, to a network without devices. True if it worked."""
    # A user namespace that cannot be set up would leave this process without a user, so it is tried first.
    if not _works(_unshare_network):
        return False
    _unshare_network()
    return True


def _works(act: Callable[[], None]) -> bool:
    """Whether a step that cannot be taken back succeeds, tried in a child."""
    trial = os.fork()
    if trial == 0:
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(trial, 0)[1] == 0


def _unshare_network() -> None:
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        checked(libc().unshare(_CLONE_NEWNET))
        return
    checked(libc().unshare(_CLONE_NEWUSER | _CLONE_NEWNET))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


# --- user and capabilities


@cache
def may_become_nobody() -> bool:
    """Whether this is a root that can drop itself; inside some containers it cannot."""
    return os.geteuid() == 0 and _works(become_nobody)


def become_nobody(keep_reading: bool = False) -> None:
    """Drop root for good. `keep_reading` leaves the one right to pass folders closed to others:
    for libraries below a closed home. Only for a process that Landlock holds."""
    right = _reading_right() if keep_reading else 0
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    prctl(_PR_SET_KEEPCAPS, 1)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    set_capabilities(right)


def set_capabilities(kept: int) -> None:
    """Give up every capability but those in `kept`."""
    header = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    checked(libc().capset(header, struct.pack("<6I", low, low, 0, high, high, 0)))


def _reading_right() -> int:
    header = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
    data = ctypes.create_string_buffer(24)
    checked(libc().capget(header, data))
    permitted = struct.unpack("<6I", data.raw)[1]
    return next((right for right in (_CAP_DAC_READ_SEARCH, _CAP_DAC_OVERRIDE) if permitted & right), 0)


# --- Landlock

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_FILE, _MAKE_REG, _TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 5, 1 << 8, 1 << 14
_FILE_RIGHTS_OF_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_NEWEST_FILE_RIGHTS = (1 << 16) - 1


@cache
def landlock_abi() -> int:
    """The kernel's Landlock version; 0 without it."""
    return max(0, int(libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def landlock_ruleset(readable: Iterable[Path], writable: Path) -> int | None:
    """A descriptor of rules: read below `readable`, read and write files in `writable`, nothing else."""
    abi = landlock_abi()
    if abi == 0:
        return None
    handled = _FILE_RIGHTS_OF_ABI.get(abi, _NEWEST_FILE_RIGHTS)
    network, scoped = (0b11 if abi >= 4 else 0), (0b11 if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    attributes = struct.pack("<QQQ", handled, network, scoped)
    ruleset = checked(libc().syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0))
    for path in readable:
        _allow(ruleset, path, _READ_FILE | (_READ_DIR if path.is_dir() else 0))
    files = _READ_FILE | _READ_DIR | _WRITE_FILE | _MAKE_REG | _REMOVE_FILE | _TRUNCATE
    _allow(ruleset, writable, files & handled)
    return ruleset


def _allow(ruleset: int, path: Path, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        checked(libc().syscall(_ADD_RULE, ruleset, 1, struct.pack("<Qi", rights, descriptor), 0))
    finally:
        os.close(descriptor)


def landlock_enforce(ruleset: int) -> None:
    """Bind this process to the rules for good."""
    checked(libc().syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
