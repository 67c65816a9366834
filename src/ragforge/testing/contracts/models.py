"""What every language model keeps. Subclass, give the fixture `model`, and pytest runs it all."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields

import pytest

from ragforge.domain.cancel import Cancel, Cancelled
from ragforge.domain.generation import Message, Role, Sampling, Usage
from ragforge.domain.pending import waited
from ragforge.errors import ProviderError, TooLarge
from ragforge.ports import LanguageModel

SAMPLING = Sampling(temperature=0.0, max_tokens=64)
MESSAGES = (
    Message(Role.SYSTEM, "You answer in one short sentence."),
    Message(Role.USER, "What is the refund window for chairs?"),
    Message(Role.ASSISTANT, "Thirty days."),
    Message(Role.USER, "And for tables?"),
)
TEXTS = (
    "The refund window for chairs is thirty days from delivery.",
    "def add(a: int, b: int) -> int:\n    return a + b\n",
    "Grüße aus Köln, façade, naïve, Ελληνικά, русский текст",
    "日本語の文書です。検索できますか？",
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A small form."""

    intent: str
    headers: tuple[str, ...]
    sure: bool


class LanguageModelContract:
    """Text in pieces with one usage behind it, forms that fit, and an end whenever the caller wants one."""

    seconds = 30.0
    """What a call may take."""

    @pytest.fixture
    def model(self) -> Iterator[LanguageModel]:
        raise NotImplementedError

    def cancel(self) -> Cancel:
        return Cancel(self.seconds)

    def ask(self, model: LanguageModel) -> tuple[str, Usage]:
        *pieces, usage = waited(model.stream(MESSAGES, SAMPLING, "request-1", self.cancel()))
        assert isinstance(usage, Usage)
        assert all(isinstance(piece, str) and piece for piece in pieces)
        return "".join(map(str, pieces)), usage

    def test_the_card_is_known_before_a_call(self, model: LanguageModel) -> None:
        card = model.card
        assert ":" in card.name
        assert card.window is None or card.window > 0
        assert card.input_price is None or card.input_price >= 0
        assert card.output_price is None or card.output_price >= 0

    def test_text_comes_in_pieces_and_the_usage_last(self, model: LanguageModel) -> None:
        text, usage = self.ask(model)
        assert text.strip()
        assert usage.input_tokens > 0
        assert usage.output_tokens > 0
        assert usage.calls == 1
        assert 0 < usage.seconds < self.seconds

    def test_a_form_is_filled(self, model: LanguageModel) -> None:
        verdict, usage = model.fill(MESSAGES, Verdict, SAMPLING, "request-2", self.cancel())
        assert isinstance(verdict, Verdict)
        assert [type(getattr(verdict, field.name)) for field in fields(Verdict)] == [str, tuple, bool]
        assert usage.calls in (1, 2)
        assert usage.input_tokens > 0

    def test_a_stream_that_is_closed_ends(self, model: LanguageModel) -> None:
        stream = waited(model.stream(MESSAGES, SAMPLING, "request-3", self.cancel()))
        assert isinstance(next(stream), str)
        stream.close()  # type: ignore[attr-defined]
        with pytest.raises(StopIteration):
            next(stream)
        assert self.ask(model)[0]

    def test_what_is_cancelled_is_never_sent(self, model: LanguageModel) -> None:
        cancel = Cancel()
        cancel.set()
        with pytest.raises(Cancelled):
            next(waited(model.stream(MESSAGES, SAMPLING, "request-4", cancel)))
        with pytest.raises(Cancelled):
            model.fill(MESSAGES, Verdict, SAMPLING, "request-5", cancel)

    def test_time_that_is_over_is_a_failure_not_a_wish(self, model: LanguageModel) -> None:
        with pytest.raises(ProviderError, match="in the time given"):
            next(waited(model.stream(MESSAGES, SAMPLING, "request-4", Cancel(deadline_seconds=0))))
        with pytest.raises(ProviderError, match="in the time given"):
            model.fill(MESSAGES, Verdict, SAMPLING, "request-5", Cancel(deadline_seconds=0))

    def test_what_does_not_fit_is_refused(self, model: LanguageModel) -> None:
        window = model.card.window
        if window is None:
            pytest.skip("nobody knows the window of this model")
        long = [Message(Role.USER, "word " * window)]
        with pytest.raises(TooLarge, match=r"[\d,]+ more than the"):
            next(waited(model.stream(long, SAMPLING, "request-6", self.cancel())))
        with pytest.raises(TooLarge):
            model.fill(long, Verdict, SAMPLING, "request-7", self.cancel())

    def test_tokens_are_counted(self, model: LanguageModel) -> None:
        assert model.count("") == 0
        for text in TEXTS:
            assert len(text.split()) <= model.count(text) <= len(text.encode()) * 2
            assert model.count(text * 3) > model.count(text)

    def test_many_threads_are_answered(self, model: LanguageModel) -> None:
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: self.ask(model)[0], range(4)))
        assert all(answers)
