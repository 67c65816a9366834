"""Messages between ragforge and its Chroma child: small facts as JSON, arrays as raw bytes. Nothing in them is run.

length of the facts | facts, with type and shape of each array | the arrays, one after the other
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_LENGTH = struct.Struct("<I")
_LARGEST_FACTS = 1 << 20
_LARGEST_ARRAY = 1 << 32
_TYPES = ("<f4", "<i8")


class Closed(Exception):
    """The other side has gone, or speaks nonsense."""


def send(stream: IO[bytes], facts: dict[str, Any], arrays: Sequence[Array] = ()) -> None:
    arrays = [np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")) for array in arrays]
    shapes = [(array.dtype.str, array.shape) for array in arrays]
    header = json.dumps({"facts": facts, "arrays": shapes}).encode()
    try:
        stream.write(_LENGTH.pack(len(header)) + header)
        for array in arrays:
            stream.write(array.tobytes())
        stream.flush()
    except OSError as problem:
        raise Closed from problem


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], list[Array]]:
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    if length > _LARGEST_FACTS:
        raise Closed
    try:
        header = json.loads(_exactly(stream, length))
        facts, shapes = header["facts"], header["arrays"]
        return facts, [_array(stream, kind, shape) for kind, shape in shapes]
    except (ValueError, TypeError, KeyError) as problem:
        raise Closed from problem


def _array(stream: IO[bytes], kind: str, shape: list[int]) -> Array:
    if kind not in _TYPES or any(size < 0 for size in shape):
        raise Closed
    length = math.prod(shape) * np.dtype(kind).itemsize
    if length > _LARGEST_ARRAY:
        raise Closed
    return np.frombuffer(_exactly(stream, length), dtype=kind).reshape(shape)


def _exactly(stream: IO[bytes], length: int) -> bytes:
    try:
        data = stream.read(length)
    except OSError as problem:
        raise Closed from problem
    if len(data) != length:
        raise Closed
    return data
