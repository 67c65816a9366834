"""A tab without a browser: it speaks Streamlit's own protocol, so that many can rerun a page at the same time."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol


@dataclass
class Tab:
    """One session of the page at this address."""

    address: str
    seconds: float = 60.0
    reruns: int = 0
    problems: list[str] = field(default_factory=list)
    """What the page said was wrong: exceptions, and errors in its own words."""

    def __enter__(self) -> Self:
        self._opened = ExitStack()
        self._socket = self._opened.enter_context(
            connect(
                self.address.replace("http://", "ws://") + "/_stcore/stream",
                subprotocols=[Subprotocol("streamlit")],
                origin=Origin(self.address),
                max_size=2**26,
            )
        )
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._opened.close()

    def rerun(self, query: str = "") -> None:
        """Run the page once more, to its end."""
        asked = BackMsg()
        asked.rerun_script.query_string = query
        self._socket.send(asked.SerializeToString())
        while True:
            said = ForwardMsg.FromString(_bytes(self._socket.recv(timeout=self.seconds)))
            kind = said.WhichOneof("type")
            if kind == "delta":
                self._look(said)
            elif kind == "script_finished":
                if said.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY:
                    break
                if said.script_finished == ForwardMsg.FINISHED_WITH_COMPILE_ERROR:
                    self.problems.append("the page has a syntax error")
                    break
        self.reruns += 1

    def _look(self, said: ForwardMsg) -> None:
        element = said.delta.new_element
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.problems.append(element.exception.message)
        elif kind == "alert" and element.alert.format == element.alert.ERROR:
            self.problems.append(element.alert.body)


def _bytes(message: str | bytes) -> bytes:
    assert isinstance(message, bytes)
    return message
