"""A filter that forbids calls no parser needs: network, other processes, the kernel's own doors."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from functools import cache

from ragforge.ingest.jail import kernel

_DENIED = {  # name: (x86_64, aarch64); None where the machine has no such call
    # network
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "recvmsg": (47, 212),
    # other processes
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "kill": (62, 129),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # memory that no limit counts
    "memfd_create": (319, 279),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    # owners and modes, which Landlock does not guard
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "lchown": (94, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    # the kernel itself
    "open_by_handle_at": (304, 265),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "mount_setattr": (442, 442),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
}
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, architecture mark
# Calls that are judged by an argument, with the same columns.
_CLONE, _TGKILL, _PRLIMIT, _FCNTL = (56, 220), (234, 131), (302, 261), (72, 25)
_CLONE3 = 435
_CLONE_THREAD = 0x10000
_X32_BIT = 0x40000000
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _MACHINE_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT = 0, 4, 16, 24
_SET_OWNER, _SET_SIGNAL, _SET_OWNER_OF_KIND = 8, 10, 15  # of fcntl: whom a file's events send which signal
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


def forbid_calls() -> bool:
    """Bind this process to the filter for good. True if the kernel and the machine know how."""
    if not known_machine():
        return False
    program = denials(platform.machine()) + _rest(platform.machine(), os.getpid())
    steps = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(steps)))
    try:
        kernel.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(header))
    except OSError:
        return False
    return True


def known_machine() -> bool:
    return platform.machine() in _MACHINES


@cache
def denials(machine: str) -> bytes:
    """The steps that refuse the calls listed above. The same for every process, so the launcher makes them once."""
    column, mark = _MACHINES[machine]
    steps = [_step(_LOAD, _MACHINE_AT), _step(_IF_EQUAL, mark, 1, 0), _step(_RETURN, _KILL), _step(_LOAD, _NUMBER_AT)]
    if machine == "x86_64":
        steps += [_step(_IF_AT_LEAST, _X32_BIT, 0, 1), _DENY]
    for numbers in _DENIED.values():
        if (number := numbers[column]) is not None:
            steps += [_step(_IF_EQUAL, number, 0, 1), _DENY]
    # Without clone3 the C library uses clone, whose flags can be read: threads pass, processes do not.
    steps += [_step(_IF_EQUAL, _CLONE3, 0, 1), _step(_RETURN, _ERROR | errno.ENOSYS)]
    return b"".join(steps)


def _rest(machine: str, process: int) -> bytes:
    """No new process, no signal to another, no limit set for another; every other call passes."""
    column = _MACHINES[machine][0]
    allow, thread = _step(_RETURN, _ALLOW), _step(_IF_BIT, _CLONE_THREAD, 0, 1)
    clone = [_step(_IF_EQUAL, _CLONE[column], 0, 4), _step(_LOAD, _FIRST_ARGUMENT_AT), thread, allow, _DENY]
    tgkill = _judged(_TGKILL[column], _FIRST_ARGUMENT_AT, (process,), allow, _DENY)
    prlimit = _judged(_PRLIMIT[column], _FIRST_ARGUMENT_AT, (0, process), allow, _DENY)
    signals = (_SET_OWNER, _SET_SIGNAL, _SET_OWNER_OF_KIND)
    fcntl = _judged(_FCNTL[column], _SECOND_ARGUMENT_AT, signals, _DENY, allow)
    return b"".join((*clone, *tgkill, *prlimit, *fcntl, allow))


def _judged(call: int, argument_at: int, values: tuple[int, ...], found: bytes, otherwise: bytes) -> list[bytes]:
    """The steps that end a call with `found` if its argument is among the values, and with `otherwise` if not."""
    among = [step for value in values for step in (_step(_IF_EQUAL, value, 0, 1), found)]
    return [_step(_IF_EQUAL, call, 0, len(among) + 2), _step(_LOAD, argument_at), *among, otherwise]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


_DENY = _step(_RETURN, _ERROR | errno.EPERM)
