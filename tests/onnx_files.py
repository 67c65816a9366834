"""A cross-encoder of a few hundred bytes: real ONNX, read by the real engine. It counts the words two texts share.

The graph is written as the protocol buffer it is, so that no test needs the `onnx` package.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

_INT64, _FLOAT = 7, 1
_MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def write_cross_encoder(folder: Path, words: Iterable[str], limit: int = 64, model_file: str = "model.onnx") -> Path:
    """A folder as a cross-encoder's own: it knows these words, and takes `limit` tokens."""
    (folder / model_file).parent.mkdir(parents=True, exist_ok=True)
    (folder / model_file).write_bytes(_model(_shared_words(), ("input_ids", "attention_mask", "token_type_ids")))
    _write_tokenizer(folder, words, limit)
    return folder


def write_embedder(folder: Path, words: Iterable[str]) -> Path:
    """What is no cross-encoder: a vector for every token."""
    folder.mkdir(parents=True, exist_ok=True)
    graph = [
        _node("Cast", ["input_ids"], "numbers", to=_FLOAT),
        _node("Unsqueeze", ["numbers", "axis2"], "column"),
        _node("Concat", ["column", "column"], "logits", axis=2),
    ]
    (folder / "model.onnx").write_bytes(_model(graph, ("input_ids",)))
    _write_tokenizer(folder, words, 64)
    return folder


def _write_tokenizer(folder: Path, words: Iterable[str], limit: int) -> None:
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys([*_MARKS, *words]))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": limit, "pad_token": "[PAD]"}))


def _shared_words() -> list[bytes]:
    """Pairs of equal tokens, one in the question and one in the text; the mark that ends both is one of them."""
    return [
        _node("Sub", ["attention_mask", "token_type_ids"], "in_question"),
        _node("Unsqueeze", ["input_ids", "axis2"], "down"),
        _node("Unsqueeze", ["input_ids", "axis1"], "across"),
        _node("Equal", ["down", "across"], "equal"),
        _node("Cast", ["equal"], "same", to=_INT64),
        _node("Unsqueeze", ["in_question", "axis2"], "question_side"),
        _node("Unsqueeze", ["token_type_ids", "axis1"], "text_side"),
        _node("Mul", ["same", "question_side"], "asked"),
        _node("Mul", ["asked", "text_side"], "shared"),
        _node("Cast", ["shared"], "numbers", to=_FLOAT),
        _node("ReduceSum", ["numbers", "axes12"], "sums", keepdims=0),
        _node("Unsqueeze", ["sums", "axis1"], "logits"),
    ]


# -- protocol buffers, as far as a graph needs them


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _node(kind: str, inputs: list[str], output: str, **attributes: int) -> bytes:
    named = b"".join(
        _bytes(5, _bytes(1, name) + _number(3, value) + _number(20, 2)) for name, value in attributes.items()
    )
    return b"".join(_bytes(1, name) for name in inputs) + _bytes(2, output) + _bytes(4, kind) + named


def _value(name: str, kind: int, rank: int) -> bytes:
    shape = b"".join(_bytes(1, _bytes(2, f"d{axis}")) for axis in range(rank))
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, shape)))


def _constant(name: str, *values: int) -> bytes:
    return _number(1, len(values)) + _number(2, _INT64) + _bytes(8, name) + _bytes(9, np.array(values, "<i8").tobytes())


def _model(nodes: list[bytes], inputs: tuple[str, ...]) -> bytes:
    constants = [_constant("axis1", 1), _constant("axis2", 2), _constant("axes12", 1, 2)]
    graph = b"".join(
        (
            *(_bytes(1, node) for node in nodes),
            _bytes(2, "tiny"),
            *(_bytes(5, constant) for constant in constants),
            *(_bytes(11, _value(name, _INT64, 2)) for name in inputs),
            _bytes(12, _bytes(1, "logits") + _bytes(2, _bytes(1, _number(1, _FLOAT)))),
        )
    )
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _number(2, 13))
