"""An upload's body as files in the inbox: multipart/form-data, or the bytes of one file. Nothing is held in memory."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from ragforge.errors import TooLarge, UserError
from ragforge.operate.inbox import Received, Receiving

MOST_FILES = 100
_MOST_FIELDS = 20
_FIELD_BYTES = 64_000
_HEADER_BYTES = 4_000
_HEADERS = 8

NewFile = Callable[[str], Receiving]


class Parts:
    """Takes a body piece by piece. Unless it is accepted, what came is removed again."""

    def __init__(self, new_file: NewFile) -> None:
        self._new_file = new_file
        self._files: list[Receiving] = []
        self.received: list[Received] = []
        self.fields: dict[str, list[str]] = {}
        self.accepted = False

    def feed(self, data: bytes) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """All came; the bytes are durable."""
        raise NotImplementedError

    def _begin(self, name: str) -> Receiving:
        if len(self._files) >= MOST_FILES:
            raise TooLarge(f"more than {MOST_FILES} files", hint="send them in several requests")
        self._files.append(self._new_file(name))
        return self._files[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if not self.accepted:
            for file in self._files:
                file.discard()


class Raw(Parts):
    """The body is the file."""

    def __init__(self, new_file: NewFile, name: str) -> None:
        super().__init__(new_file)
        self._file = self._begin(name)

    def feed(self, data: bytes) -> None:
        self._file.write(data)

    def finish(self) -> None:
        self.received = [self._file.keep()]


class Form(Parts):
    """Files, and fields that say something of all of them."""

    def __init__(self, new_file: NewFile, content_type: str) -> None:
        super().__init__(new_file)
        self._ended = False
        self._file: Receiving | None = None
        self._name, self._field = "", bytearray()
        self._header, self._value, self._disposition = bytearray(), bytearray(), b""
        self._field_count = self._field_bytes = 0
        boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
        if not boundary:
            raise UserError("the form has no boundary", hint="send multipart/form-data; boundary=…")
        with _as_ours():
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._part_begin,
                    "on_part_data": self._part_data,
                    "on_part_end": self._part_end,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_finished,
                    "on_end": self._end,
                },
                max_header_count=_HEADERS,
                max_header_size=_HEADER_BYTES,
            )

    def feed(self, data: bytes) -> None:
        with _as_ours():
            self._parser.write(data)

    def finish(self) -> None:
        if not self._ended:
            raise UserError("the form ends before its end", hint="send all of it, with the closing boundary")
        if not self._files:
            raise UserError("the form has no file", hint="name its field `file`, with a filename")

    # -- what the parser tells

    def _part_begin(self) -> None:
        self._disposition, self._file, self._field = b"", None, bytearray()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if bytes(self._header).lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = _text(options.get(b"name", b""), "the name of a field")
        if b"filename" in options:
            if self._name not in ("file", "files"):
                raise UserError(f"no file is taken in the field {self._name!r}", hint="name the field `file`")
            self._file = self._begin(_text(options[b"filename"], "a file's name"))
            return
        self._field_count += 1
        if self._field_count > _MOST_FIELDS:
            raise UserError(f"more than {_MOST_FIELDS} fields", hint="send files in the field `file`")

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._file.write(data[start:end])
            return
        self._field_bytes += end - start
        if self._field_bytes > _FIELD_BYTES:
            raise UserError("the fields are too long", hint="send files in the field `file`, with a filename")
        self._field += data[start:end]

    def _part_end(self) -> None:
        if self._file is not None:  # closed at once: many forms of many files would take all descriptors that there are
            self.received.append(self._file.keep())
            return
        self.fields.setdefault(self._name, []).append(_text(bytes(self._field), f"the field {self._name!r}"))

    def _end(self) -> None:
        self._ended = True


def _text(data: bytes, what: str) -> str:
    """Names come as UTF-8, which the parser hands on byte by byte."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UserError(f"{what} is no UTF-8", hint="encode names and fields as UTF-8") from None


class _as_ours:
    """What the parser does not like, as an error with the next step."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, problem: BaseException | None, _: object) -> None:
        if isinstance(problem, FormParserError):
            hint = "send multipart/form-data as a browser or curl -F does"
            raise UserError(f"the form cannot be read: {problem}", hint=hint) from problem
