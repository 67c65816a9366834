"""Speech with its times."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.documents import Mark, Parsed, TextKind
from ragforge.ingest.parse.transcript import from_json, parse
from tests.proof import count


def read(text: str, name: str = "a.vtt") -> Parsed:
    return parse(text.encode(), name)


def spans(parsed: Parsed) -> list[tuple[float | None, float | None, str]]:
    """Each mark's times and the words they hold for."""
    ends = [*(mark.offset for mark in parsed.marks[1:]), len(parsed.text)]
    return [
        (mark.start, mark.end, parsed.text[mark.offset : end].strip())
        for mark, end in zip(parsed.marks, ends, strict=True)
    ]


def test_vtt_with_everything() -> None:
    parsed = read(
        "\ufeffWEBVTT - talk\nKind: captions\n\nSTYLE\n::cue { color: red }\n\nNOTE\nnot said\n\n"
        "intro\n00:01.000 --> 00:02.500 align:start position:0%\n<v Ann Lee>Hello <i>there</i> &amp; welcome\n\n"
        "00:00:02.500 --> 00:00:04.000\n<v.loud Bob>Hi!</v>\n<v Ann Lee>Well.\n\n"
        "25:00:00.000 --> 25:00:01.000\nlate <00:17.500>words\n"
    )
    assert parsed.kind is TextKind.TRANSCRIPT
    assert parsed.text == "Ann Lee: Hello there & welcome\nBob: Hi!\nAnn Lee: Well.\nlate words\n"
    assert parsed.marks == (
        Mark(0, start=1.0, end=2.5, speaker="Ann Lee"),
        Mark(31, start=2.5, end=4.0, speaker="Bob"),
        Mark(40, start=2.5, end=4.0, speaker="Ann Lee"),
        Mark(55, start=90000.0, end=90001.0),
    )
    assert parsed.notes == ()


def test_srt() -> None:
    parsed = read(
        "1\r\n00:00:00,500 --> 00:00:07,000\r\n{\\an8}Two\r\nlines\r\n\r\n2\r\n00:00:07,000 --> 00:00:11.890\r\n42\r\n",
        "a.srt",
    )
    assert spans(parsed) == [(0.5, 7.0, "Two lines"), (7.0, 11.89, "42")]


def test_srt_without_blank_lines_between_cues() -> None:
    parsed = read("1\n00:00:01,000 --> 00:00:02,000\none\n2\n00:00:02,000 --> 00:00:03,000\ntwo\n", "a.srt")
    assert spans(parsed) == [(1.0, 2.0, "one"), (2.0, 3.0, "two")]


def test_sbv() -> None:
    parsed = read("0:00:00.378,0:00:11.378\nOne\n\n0:00:17.484,0:00:16.543\nTwo\n", "a.sbv")
    assert spans(parsed) == [(0.378, 11.378, "One"), (17.484, 17.484, "Two")]


def test_words_without_a_time_are_kept_and_noted() -> None:
    parsed = read(
        "WEBVTT\n\n00:01.000 --> 00:02.000\none\n\nlost words\n\n"
        "00:xx --> 00:05.000\nmore\n\n00:06.000 --> 00:07.000\ntwo\n"
    )
    assert spans(parsed) == [(1.0, 2.0, "one lost words more"), (6.0, 7.0, "two")]
    assert parsed.notes == ("2 cue(s) without a readable time: their words are kept with the cue before",)


def test_no_times_at_all_is_plain_text() -> None:
    parsed = read("some text", "a.sbv")
    assert (parsed.text, parsed.kind) == ("some text", TextKind.PROSE)
    assert parsed.notes == ("no time codes found: kept as plain text",)


def test_rolling_captions_say_everything_once() -> None:
    parsed = read(
        "WEBVTT\n\n00:01.000 --> 00:02.000\n \nso<00:01.500><c> today</c>\n\n00:02.000 --> 00:02.010\nso today\n \n\n"
        "00:02.010 --> 00:04.000\nso today\nwe talk\n\n00:04.000 --> 00:04.010\nwe talk\n\n"
        "00:04.010 --> 00:06.000\nwe talk\nabout chairs\n"
    )
    assert spans(parsed) == [(1.0, 2.0, "so today"), (2.01, 4.0, "we talk"), (4.01, 6.0, "about chairs")]


def test_growing_captions_say_everything_once() -> None:
    parsed = read(
        "WEBVTT\n\n00:01.000 --> 00:02.000\nhello\n\n00:02.000 --> 00:03.000\nhello big\n\n"
        "00:03.000 --> 00:04.000\nhello big world\n"
    )
    assert parsed.text.split() == ["hello", "big", "world"]


def test_an_answer_may_be_repeated() -> None:
    cues = "".join(f"00:{number:02}.000 --> 00:{number:02}.900\nline {number}\n\n" for number in range(10, 40))
    parsed = read("WEBVTT\n\n00:01.000 --> 00:02.000\nNo.\n\n00:02.000 --> 00:03.000\nNo.\n\n" + cues)
    assert parsed.text.startswith("No.\nNo.\nline 10\n")


def test_speakers_written_into_the_words() -> None:
    parsed = read(
        "WEBVTT\n\n00:01.000 --> 00:02.000\nAnn Lee: hi\n\n00:02.000 --> 00:03.000\nNote: once\n\n"
        "00:03.000 --> 00:04.000\nAnn Lee: bye\n"
    )
    assert [mark.speaker for mark in parsed.marks] == ["Ann Lee", None, "Ann Lee"]
    assert parsed.text.startswith("Ann Lee: hi\n")


def test_a_speaker_is_named_where_the_turn_begins() -> None:
    parsed = read(
        "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Mara Jensen>We start a round of customer\n\n"
        "00:02.000 --> 00:03.000\n<v Mara Jensen>service calls.\n\n00:03.000 --> 00:04.000\n<v Bo>Good.\n\n"
        "00:04.000 --> 00:05.000\n<v Mara Jensen>Yes.\n"
    )
    assert parsed.text == "Mara Jensen: We start a round of customer\nservice calls.\nBo: Good.\nMara Jensen: Yes.\n"
    assert [mark.speaker for mark in parsed.marks] == ["Mara Jensen", "Mara Jensen", "Bo", "Mara Jensen"]
    assert spans(parsed)[1] == (2.0, 3.0, "service calls.")


def test_a_speaker_written_into_the_words_is_named_once_a_turn() -> None:
    parsed = read(
        "1\n00:00:01,000 --> 00:00:02,000\nAnn Lee: one\n\n2\n00:00:02,000 --> 00:00:03,000\nAnn Lee: two: three\n\n"
        "3\n00:00:03,000 --> 00:00:04,000\nand four\n\n4\n00:00:04,000 --> 00:00:05,000\n>> Ann Lee: five\n",
        "a.srt",
    )
    assert parsed.text == "Ann Lee: one\ntwo: three\nand four\nAnn Lee: five\n"
    assert [mark.speaker for mark in parsed.marks] == ["Ann Lee", "Ann Lee", None, "Ann Lee"]


def test_json_speakers_and_strings() -> None:
    cues = from_json(
        [{"start": "1.5", "end": "2", "text": " hi\nyou ", "speaker": "Bo"}, {"start": 2, "end": 3, "text": ""}]
    )
    assert cues is not None
    assert [(cue.start, cue.end, cue.lines, cue.speaker) for cue in cues] == [(1.5, 2.0, ("hi", "you"), "Bo")]


@pytest.mark.parametrize(
    "value", [[], {}, [1, 2], [{"start": 1}], {"segments": "x"}, [{"start": 1, "end": 2, "text": 3}], "x"]
)
def test_other_json_is_no_transcript(value: object) -> None:
    assert from_json(value) is None


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 200_000_000), st.sampled_from(["a", "b c", "d"])), min_size=1, max_size=12))
def test_times_stay_monotone_where_they_are(cues: list[tuple[int, str]]) -> None:
    cues.sort()
    text = "".join(
        f"{stamp(start)} --> {stamp(start + 500)}\n{words} {place}\n\n" for place, (start, words) in enumerate(cues)
    )
    parsed = read("WEBVTT\n\n" + text)
    starts = [mark.start for mark in parsed.marks if mark.start is not None]
    assert starts == [start / 1000 for start, _ in cues]
    assert [mark.offset for mark in parsed.marks] == sorted(mark.offset for mark in parsed.marks)


def stamp(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"


@settings(max_examples=count(26, 80), deadline=None)
@given(st.text(alphabet="01:.,->\n ab<v>{}&;WEBVTT", max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    parsed = read(text)
    assert all(0 <= mark.offset <= len(parsed.text) for mark in parsed.marks)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["<v ", "<", "{\\", "<v.a", "00:", "a: ", "&"])
def test_hostile_repetition_takes_linear_time(piece: str) -> None:
    assert read("WEBVTT\n\n00:01.000 --> 00:02.000\n" + piece * 50_000).text
