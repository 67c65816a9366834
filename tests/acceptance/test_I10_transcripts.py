"""I10: transcript segments are grouped; start, end and speaker survive down to the citation."""

from __future__ import annotations

import json
from pathlib import Path

from ragforge.domain.documents import clock_time
from tests.forge import open_forge


def moment(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.000"


def test_I10_times_and_speakers_reach_the_chunks(swift_path: Path) -> None:
    cues = []
    for number in range(120):
        start = number * 10
        speaker = "Ann" if number // 20 % 2 == 0 else "Bob"
        cues.append(f"{moment(start)} --> {moment(start + 9)}\n<v {speaker}>Item{number} is about chairs and desks.")
    (swift_path / "talk.vtt").write_text("WEBVTT\n\n" + "\n\n".join(cues) + "\n")
    with open_forge(swift_path / "workspace") as forge:
        forge.add(swift_path / "talk.vtt", project="p")
        chunks = forge.chunks("talk.vtt", project="p")
    assert len(chunks) > 10, "grouped to the target size, not one chunk"
    assert len(chunks) < 120, "grouped, not one chunk for each segment"
    for chunk in chunks:
        said = [number for number in range(120) if f"Item{number} " in chunk.text]
        assert chunk.locator.start == said[0] * 10 and chunk.locator.end == said[-1] * 10 + 9
        assert chunk.locator.label() == f"t={clock_time(said[0] * 10)}"
        speakers = {"Ann" if number // 20 % 2 == 0 else "Bob" for number in said}
        assert chunk.locator.speaker in speakers
    assert {chunk.locator.speaker for chunk in chunks} == {"Ann", "Bob"}
    assert any(chunk.locator.label() == "t=12:30" or (chunk.locator.start or 0) > 750 for chunk in chunks)


def test_I10_youtube_json_keeps_its_times(swift_path: Path) -> None:
    segments = [{"text": f"segment{n} tells of oak", "start": n * 5.0, "duration": 5.0} for n in range(60)]
    (swift_path / "video.json").write_text(json.dumps(segments))
    with open_forge(swift_path / "workspace") as forge:
        forge.add(swift_path / "video.json", project="p")
        for chunk in forge.chunks("video.json", project="p"):
            said = [n for n in range(60) if f"segment{n} " in chunk.text]
            assert (chunk.locator.start, chunk.locator.end) == (said[0] * 5.0, said[-1] * 5.0 + 5.0)
