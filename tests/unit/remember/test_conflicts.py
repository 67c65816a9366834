from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragforge.domain.conversation import Conflict, Episode
from ragforge.domain.prompts import InjectedFile
from ragforge.remember.conflicts import suppress, suppress_recent
from ragforge.remember.rollup import summary_of, tags_of
from tests.unit.remember.support import WORDS, count, episode, file, rollup, turn

SETTINGS = file(
    "settings.toml",
    '[server]\ntimeout = 60\nport = 8_080\ndebug = false\n\n[database]\nengine = "postgres"\npool.size = 5\n',
)
CODE = file(
    "client.py",
    "class Client:\n"
    "    # The client never sends cookies.\n"
    "    def fetch(self, url: str, retries: int = 3, model=default_model):\n"
    "        self.backoff = 1.5\n",
)


def against(said: str, *files: InjectedFile) -> tuple[Conflict, ...]:
    return suppress([episode(7, "What is it?", said)], [], files, words=WORDS, count=count)[1]


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("The timeout is 30 seconds.", "timeout = 60"),
        ("The server timeout is currently set to 30.", "timeout = 60"),
        ("In settings.toml the default timeout is 30 s [2].", "timeout = 60"),
        ("Set `timeout = 30` in settings.toml.", "timeout = 60"),
        ("- The port is 9,090", "port = 8_080"),
        ("Debug is enabled.", "debug = false"),
        ("The timeout is not 60 seconds.", "timeout = 60"),
        ("The database engine is `mysql`.", 'engine = "postgres"'),
        ("The database pool size is 10.", "pool.size = 5"),
    ],
)
def test_a_sentence_that_says_otherwise_than_a_file_is_left_out(said: str, instead: str) -> None:
    (conflict,) = against(said, SETTINGS)
    assert (conflict.id, conflict.number, conflict.against) == ("t7", 7, "settings.toml")
    assert conflict.instead == instead
    assert conflict.said in said or conflict.said in said.replace(" [2]", "")
    assert not conflict.repeats


@pytest.mark.parametrize(
    "said",
    [
        "The timeout is 60 seconds.",
        "The timeout is not 30 seconds.",
        "The timeout was 30 seconds.",
        "If the timeout is 30 seconds, raise it.",
        "The database timeout is 30 seconds.",
        "The timeout of the proxy is 30 seconds.",
        "Is the timeout 30 seconds?",
        "Between 30 and 90 seconds pass, a timeout included, before 3 retries.",
        "Debug is not enabled.",
        "The port is 8080.",
        "The engine is Postgres.",
        "We spoke for 30 minutes.",
        "The engine of the car is loud.",
    ],
)
def test_other_sentences_stay(said: str) -> None:
    assert not against(said, SETTINGS)


def test_code_sets_values_too() -> None:
    assert [conflict.instead for conflict in against("There are 5 retries.", CODE)] == [
        "def fetch(self, url: str, retries: int = 3, model=default_model):"
    ]
    assert [conflict.instead for conflict in against("The backoff is 2.5.", CODE)] == ["self.backoff = 1.5"]
    assert against("The client sends cookies.", CODE)[0].instead == "The client never sends cookies."
    assert not against("The model is `gpt-5`.", CODE), "default_model names something else"


def test_yaml_and_json_are_read_by_their_sections() -> None:
    yaml = file("deploy.yaml", "web:\n  replicas: 3\nworker:\n  replicas: 8\n  image: debian\n")
    assert against("The web replicas are 5.", yaml)[0].instead == "replicas: 3"
    assert not against("Replicas are 8.", yaml), "one of them is"
    assert against("The worker image is `alpine`.", yaml)[0].instead == "image: debian"
    assert (
        against("The limit is 20.", file("a.json", '{"limit":10,"name":"x"}'))[0].instead == '{"limit":10,"name":"x"}'
    )


def test_what_agrees_with_one_of_two_files_stands() -> None:
    development = file("dev.toml", "timeout = 30\n")
    assert against("The timeout is 30 seconds.", SETTINGS)
    assert not against("The timeout is 30 seconds.", SETTINGS, development)
    assert against("The timeout is 45 seconds.", SETTINGS, development)[0].against == "settings.toml"


def test_a_repetition_is_left_out_and_says_so() -> None:
    readme = file("README.md", "# Start\n\nRun the installer as administrator and restart the computer afterwards.\n")
    said = "Run the installer as administrator and restart the computer."
    (conflict,) = against(said, readme)
    assert conflict.repeats
    assert (conflict.said, conflict.against) == (said, "README.md")
    assert not against("Run the installer as administrator and restart all 3 printers.", readme)


def test_only_the_sentence_goes_and_an_episode_without_an_answer_goes_too() -> None:
    mixed = episode(5, "How do I wait?", "The timeout is 30 seconds. Restart the service after a change.")
    alone = episode(6, "And the port?", "The port is 9090.")
    kept, conflicts = suppress([mixed, alone], [], [SETTINGS], words=WORDS, count=count)
    assert [each.text for each in kept] == ["Asked: How do I wait?\nAnswered: … Restart the service after a change."]
    assert kept[0].tokens == count(kept[0].text)
    assert [conflict.number for conflict in conflicts] == [5, 6]


def test_the_newer_of_two_turns_counts() -> None:
    old = episode(5, "Which guarantee?", "The guarantee is 2 years.")
    new = episode(9, "Which guarantee?", "The guarantee is now 5 years.")
    kept, conflicts = suppress([old, new], [], [], words=WORDS, count=count)
    assert kept == (new,)
    assert conflicts == (Conflict("t5", 5, "The guarantee is 2 years.", "turn 9", "The guarantee is now 5 years."),)


def test_the_newest_that_speaks_of_it_decides() -> None:
    said = [
        episode(number, "Guarantee?", f"The guarantee is {years} years.") for number, years in ((1, 2), (2, 5), (3, 2))
    ]
    kept, conflicts = suppress(said, [], [], words=WORDS, count=count)
    assert [each.first for each in kept] == [1, 3]
    assert [conflict.number for conflict in conflicts] == [2]


def test_what_the_newest_recent_turn_confirms_stands() -> None:
    old = episode(5, "Guarantee?", "The guarantee is 2 years.")
    recent = [turn(20, "?", "The guarantee is 5 years."), turn(21, "?", "No: the guarantee is 2 years.")]
    assert suppress([old], recent, [], words=WORDS, count=count) == ((old,), ())
    assert suppress([old], recent[:1], [], words=WORDS, count=count)[0] == ()


def test_other_units_are_not_compared() -> None:
    old = episode(5, "Guarantee?", "The guarantee is 24 months.")
    new = episode(9, "Guarantee?", "The guarantee is 2 years.")
    assert suppress([old, new], [], [], words=WORDS, count=count)[1] == ()


def test_words_with_accents_are_found_in_files() -> None:
    assert against("The größe is 7.", file("a.toml", "größe = 5\n"))[0].instead == "größe = 5"


def test_recent_turns_count_more_and_files_most() -> None:
    old = episode(5, "Timeout?", "The timeout is 30 seconds.")
    said = turn(20, "We changed it: the timeout is 45 seconds now.", "Noted.")
    _, conflicts = suppress([old], [said], [], words=WORDS, count=count)
    assert [conflict.against for conflict in conflicts] == ["turn 20"]
    _, conflicts = suppress([old], [said], [SETTINGS], words=WORDS, count=count)
    assert [conflict.against for conflict in conflicts] == ["settings.toml"]
    agreed = episode(5, "Timeout?", "The timeout is 60 seconds.")
    assert suppress([agreed], [said], [SETTINGS], words=WORDS, count=count) == ((agreed,), ())


def test_a_turn_that_was_itself_overruled_overrules_nothing() -> None:
    first = episode(3, "Timeout?", "The timeout is 60 seconds.")
    second = episode(5, "Timeout?", "The timeout is 30 seconds.")
    kept, _ = suppress([first, second], [], [SETTINGS], words=WORDS, count=count)
    assert kept == (first,)


def test_a_rollup_loses_its_sentence_and_is_named_by_its_turns() -> None:
    told = rollup(1, 6, "Timeouts", "The timeout is 30 seconds. Retries help.")
    whole = Episode(told.id, 1, 6, f"{told.title}\n{told.text}", told.made_at, 0.5, told.tokens)
    old = Episode("r0", 0, 0, "Help\nRetries do not help.", told.made_at, 0.5, 5)
    kept, conflicts = suppress([whole, old], [], [SETTINGS], words=WORDS, count=count)
    assert [each.text for each in kept] == ["Timeouts\n… Retries help."]
    assert [conflict.against for conflict in conflicts] == ["turns 1 to 6", "settings.toml"]


def test_recent_turns_keep_everything_but_what_contradicts_a_file() -> None:
    said = turn(9, "And now?", "The timeout is 30 seconds [1]. Restart the service after each change of a setting.")
    same = turn(10, "Port?", "The port is 8080.")
    kept, conflicts = suppress_recent([said, same], [SETTINGS], words=WORDS)
    assert kept[0].answer == "(settings.toml says otherwise) Restart the service after each change of a setting."
    assert kept[1] is same
    assert [(conflict.number, conflict.instead) for conflict in conflicts] == [(9, "timeout = 60")]
    assert suppress_recent([said], [], words=WORDS) == ((said,), ())


KEYS = st.sampled_from(["request timeout", "max retries", "pool size", "batch limit", "cache lifetime", "port"])
FORMATS = st.sampled_from(
    [
        ("a.toml", "[x]\n{snake} = {number}\n"),
        ("a.yaml", "x:\n  {snake}: {number}  # see below\n"),
        ("a.json", '{{\n  "x": {{"{camel}": {number}}}\n}}\n'),
        ("a.env", "{upper}={number}\n"),
        ("a.py", "{upper}: int = {number}\n"),
        ("a.py", "def run(first, {snake}={number}, last=None):\n"),
        ("a.ts", "const {camel} = {number};\n"),
        ("a.md", "The {key} is {number}.\n"),
    ]
)
SENTENCES = st.sampled_from(
    [
        "The {key} is {number}.",
        "By default, the {key} is set to {number}.",
        "`{snake}` is {number} now.",
        "{upper} = {number}",
    ]
)


@given(KEYS, FORMATS, SENTENCES, st.integers(2, 99_999), st.integers(2, 99_999))
@settings(max_examples=200, deadline=None)
def test_in_any_format_only_another_figure_is_a_conflict(
    key: str, made: tuple[str, str], sentence: str, right: int, said: int
) -> None:
    head, *rest = key.split()
    names = {
        "key": key,
        "snake": key.replace(" ", "_"),
        "upper": key.replace(" ", "_").upper(),
        "camel": head + "".join(map(str.title, rest)),
    }
    text = made[1].format(**names, number=right)
    conflicts = against(sentence.format(**names, number=said), file(made[0], text))
    assert any(not conflict.repeats for conflict in conflicts) == (right != said)


@given(st.lists(st.text(alphabet="abc 019.,=:-?\n[]{}\"'", max_size=60), max_size=4), st.text(max_size=200))
@settings(max_examples=120, deadline=None)
def test_any_text_is_read_and_nothing_grows(answers: list[str], text: str) -> None:
    episodes = [episode(number, "What?", answer) for number, answer in enumerate(answers, 1)]
    kept, conflicts = suppress(episodes, [], [file("x.yaml", text)], words=WORDS, count=count)
    assert {each.id for each in kept} <= {each.id for each in episodes}
    told = {conflict.id for conflict in conflicts}
    assert all(each in kept or each.id in told for each in episodes), "what is left out is shown"


@pytest.mark.parametrize(
    "piece",
    [
        "a: ",
        "1,",
        "1.1 ",
        " ",
        "\t",
        "is ",
        "is not ",
        "x = 1, ",
        "[1] ",
        " [",
        "a.",
        "`",
        '"a":',
        "- ",
        "and ",
        "é ",
        "a\n",
        "{\n",
    ],
)
def test_long_hostile_texts_take_no_longer_than_their_length(piece: str) -> None:
    text = "The timeout is " + piece * (20_000 // len(piece)) + "x"
    began = time.thread_time()
    suppress([episode(1, "What?", text)], [turn(2, "Well?", text)], [file("a.yaml", text)], words=WORDS, count=count)
    suppress_recent([turn(2, "Well?", text)], [file("a.yaml", text)], words=WORDS)
    summary_of(turn(3, "Why?", text), WORDS)
    tags_of(turn(3, text, text), WORDS)
    assert time.thread_time() - began < 3
