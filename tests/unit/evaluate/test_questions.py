"""Files of questions: what they become, and how bad lines are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragforge.domain.evaluation import Question, set_digest
from ragforge.errors import NotFound, UserError
from ragforge.evaluate.questions import json_object, read_questions


def written(path: Path, *lines: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def only(path: Path) -> Question:
    (question,) = read_questions(path).questions
    return question


def refused(path: Path, split: str = "") -> str:
    with pytest.raises(UserError) as problem:
        read_questions(path, split)
    assert problem.value.hint
    return problem.value.message


def test_jsonl_with_everything(tmp_path: Path) -> None:
    line = {
        "id": 7,
        "question": "  How long is the refund window? ",
        "documents": ["returns.md", "faq", "returns.md"],
        "grades": {"faq": 2, "old.md": 0},
        "answers": "thirty days",
    }
    question = only(written(tmp_path / "q.jsonl", line))
    assert question == Question(
        "7",
        "How long is the refund window?",
        {"returns.md": 1, "faq": 2, "old.md": 0},
        answers=("thirty days",),
    )
    assert question.wanted == question.documents


@pytest.mark.parametrize(
    ("fields", "has_answer"),
    [
        ({"documents": []}, False),
        ({"doc_ids": []}, False),
        ({"documents": [], "answers": []}, False),
        ({"documents": [], "answerable": True}, None),
        ({"documents": [], "answers": ["thirty days"]}, True),
        ({"documents": [], "chunks": ["c"]}, True),
        ({"documents": [], "grades": {"a.md": 0}}, None),
        ({"documents": None}, None),
        ({"answers": "thirty days"}, True),
        ({"documents": ["a.md"]}, True),
        ({"answerable": False}, False),
        ({}, None),
    ],
)
def test_whether_there_is_an_answer(tmp_path: Path, fields: dict[str, object], has_answer: bool | None) -> None:
    assert only(written(tmp_path / "q.jsonl", {"question": "Why?", **fields})).has_answer is has_answer


def test_an_empty_cell_says_nothing(tmp_path: Path) -> None:
    assert only(written(tmp_path / "q.csv", "question,documents", "Why?,")).has_answer is None


def test_the_form_of_squad(tmp_path: Path) -> None:
    line = {"_id": "q1", "question": "Why?", "answers": [], "doc_ids": ["Force#27"], "answerable": False, "x": None}
    question = only(written(tmp_path / "q.jsonl", line))
    assert (question.id, dict(question.documents), question.answerable) == ("q1", {"Force#27": 1}, False)
    assert question.wanted == {}, "the document named is a look-alike"


def test_a_single_thing_needs_no_list(tmp_path: Path) -> None:
    question = only(written(tmp_path / "q.jsonl", {"question": "Why?", "document": "a.md", "answer": "so"}))
    assert (question.documents, question.answers) == ({"a.md": 1}, ("so",))


def test_chunks_are_judged_instead_of_documents(tmp_path: Path) -> None:
    question = only(written(tmp_path / "q.jsonl", {"question": "Why?", "documents": ["a"], "chunks": ["c1", "c2"]}))
    assert question.wanted == {"c1": 1, "c2": 1}


def test_without_an_id_the_text_names_it(tmp_path: Path) -> None:
    first = only(written(tmp_path / "a.jsonl", {"question": "Why?"}))
    assert first == only(written(tmp_path / "b.jsonl", "", {"question": "Why? "}, ""))
    assert first.wanted == {}
    assert first.id != only(written(tmp_path / "c.jsonl", {"question": "How?"})).id


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("NaN", "no JSON"),
        ('["a"]', "no JSON object"),
        ("{}", 'no "question"'),
        ({"_id": "1", "text": "Why?"}, "imported by its folder"),
        ({"question": " "}, "the question is empty"),
        ({"question": ["Why?"]}, "the question is a list, not a text in quotes"),
        ({"question": 5}, "the question is a number, not a text in quotes"),
        ({"question": None}, "the question is missing"),
        ({"question": "a\x00b"}, "characters that are no text"),
        ('{"question": "a\\ud800b"}', "characters that are no text"),
        ({"question": "Why?", "documents": [""]}, 'an entry of "documents" is empty'),
        ({"question": "Why?", "documents": [["a"]]}, 'an entry of "documents" is a list, not a text in quotes'),
        ({"question": "Why?", "documents": [1]}, 'an entry of "documents" is a number, not a text in quotes'),
        ({"question": "Why?", "documents": False}, 'an entry of "documents" is true or false'),
        ({"question": "Why?", "documents": {"a": 1}}, '"documents" is an object, not a list of texts'),
        ({"question": "Why?", "documents": ["a"], "doc_ids": ["b"]}, '"documents" and "doc_ids" mean the same'),
        ({"question": "Why?", "grades": ["a"]}, '"grades" is a list, not an object such as {"faq.html": 2}'),
        ({"question": "Why?", "grades": ""}, '"grades" is a text, not an object'),
        ({"question": "Why?", "grades": {"a": None}}, "the grade of 'a' is null, not a number"),
        ({"question": "Why?", "grades": {"a": "2"}}, "the grade of 'a' is a text, not a number"),
        ({"question": "Why?", "grades": {"a": True}}, "the grade of 'a' is true or false, not a number"),
        ({"question": "Why?", "grades": {"a": -1}}, "the grade of 'a' is -1, not between 0 (not relevant) and"),
        ('{"question": "Why?", "grades": {"a": 1e999}}', "the grade of 'a' is inf, not between 0"),
        ({"question": "Why?", "grades": {"a": 10**60}}, "the grade of 'a' is 100000000000, not between 0"),
        (
            {"question": "Why?", "documents": ["a"], "answerable": False},
            '"answerable" is false, but there are documents',
        ),
        (
            {"question": "Why?", "grades": {"a": 1}, "answerable": False},
            '"answerable" is false, but there are documents',
        ),
        ({"question": "Why?", "chunks": ["c"], "answerable": False}, '"answerable" is false, but there are chunks'),
        ({"question": "Why?", "answer": "so", "answerable": False}, '"answerable" is false, but there are answers'),
        ({"question": "Why?", "answerable": "no"}, '"answerable" is neither true nor false'),
        ({"question": "Why?", "id": True}, "the id is true or false, not a text in quotes"),
        ({"question": "Why?", "id": 1.5}, "the id is a number, not a text in quotes"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: object, reason: str) -> None:
    message = refused(written(tmp_path / "q.jsonl", {"question": "Good?"}, "", line))
    assert message.startswith("q.jsonl has 1 bad line, nothing was imported: line 3: ")
    assert reason in message


def test_all_bad_lines_are_named_at_once(tmp_path: Path) -> None:
    message = refused(written(tmp_path / "q.jsonl", *["{"] * 3, {"question": "Why?"}, *["{}"] * 4))
    assert "7 bad lines" in message and "line 1: no JSON; line 2" in message and 'line 6: no "question"; …' in message


def test_the_same_id_twice(tmp_path: Path) -> None:
    path = written(tmp_path / "q.jsonl", {"question": "A?", "id": 1}, {"question": "B?", "id": "1"})
    assert "line 2: the same question as line 1 (1)" in refused(path)


def test_every_question_has_its_line(tmp_path: Path) -> None:
    lines = written(tmp_path / "q.jsonl", {"question": "A?"}, "", {"question": "B?"})
    assert [number for number, _ in read_questions(lines).numbered] == [1, 3]
    rows = written(tmp_path / "q.csv", "question,document", "A?,a", "", "B?,b", "A?,c")
    assert [(number, q.text) for number, q in read_questions(rows).numbered] == [(2, "A?"), (4, "B?")]
    folder = beir(tmp_path / "beir")
    assert [(number, q.id) for number, q in read_questions(folder).numbered] == [(1, "1"), (3, "3")]
    assert read_questions(folder).file == folder / "queries.jsonl"


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"question": "A?"}\r\n{"question": "\xff"}\n')
    assert "line 2: not UTF-8" in refused(path)
    (tmp_path / "q.csv").write_bytes(b"question\nA\xff\n")
    assert "line 2: not UTF-8" in refused(tmp_path / "q.csv")


def test_what_is_no_file_of_questions(tmp_path: Path) -> None:
    assert "holds no questions" in refused(written(tmp_path / "q.jsonl", ""))
    assert "is no file of questions" in refused(written(tmp_path / "q.txt", "Why?"))
    assert "no queries.jsonl" in refused(tmp_path)
    with pytest.raises(NotFound):
        read_questions(tmp_path / "gone.jsonl")


# -- CSV


def test_csv(tmp_path: Path) -> None:
    path = written(
        tmp_path / "q.csv",
        "\ufeffQuestion, Documents ,Answer,answerable,note",
        '"How long, exactly?",returns.md|faq.md,"30 days; a month",yes,',
        "Why?,,,no,x",
        "",
        '"How long, exactly?",extra.md,,,',
    )
    first, second = read_questions(path).questions
    assert list(first.documents) == ["returns.md", "faq.md", "extra.md"], "rows of one question are one"
    assert first.answers == ("30 days", "a month")
    assert (second.text, second.answerable, second.documents) == ("Why?", False, {})


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_csv_with_another_delimiter(tmp_path: Path, delimiter: str) -> None:
    path = written(tmp_path / "q.tsv", delimiter.join(("question", "document")), delimiter.join(("A, b?", "x")))
    assert only(path).documents == {"x": 1}


def test_bad_csv(tmp_path: Path) -> None:
    assert "no column called question" in refused(written(tmp_path / "q.csv", "query,document", "A?,x"))
    assert "holds no questions" in refused(written(tmp_path / "q.csv", "question,document"))
    path = written(tmp_path / "q.csv", "question,document", ",x", "A?,x,y", "B?,x")
    assert "line 2: the question is empty; line 3: 3 cells under a header of 2" in refused(path)
    assert "neither true nor false" in refused(written(tmp_path / "q.csv", "question,answerable", "A?,maybe"))
    path = written(tmp_path / "q.csv", "id,question,answerable,documents", "1,A?,yes,a", "1,B?,yes,b", "1,A?,no,")
    assert "line 3: the same question as line 2, but another text" in refused(path)
    assert "line 4: the same question as line 2, but another answerable" in refused(path)
    assert "line 2" in refused(written(tmp_path / "q.csv", "question", '"never closed'))


# -- BEIR


def beir(folder: Path, qrels: str = "qrels.tsv", *judgements: str) -> Path:
    written(folder / "queries.jsonl", *({"_id": id, "text": f"What of {id}?", "metadata": {}} for id in "123"))
    written(folder / qrels, *(judgements or ("query-id\tcorpus-id\tscore", "1\td1\t2", "1\td2\t0", "3\td1\t1")))
    return folder


def test_a_beir_folder(tmp_path: Path) -> None:
    reading = read_questions(beir(tmp_path))
    assert [(q.id, dict(q.documents)) for q in reading.questions] == [("1", {"d1": 2, "d2": 0}), ("3", {"d1": 1})]
    assert (reading.left_out, reading.corpus) == (1, None)
    written(tmp_path / "corpus.jsonl", {"_id": "d1", "text": "x"})
    assert read_questions(tmp_path).corpus == tmp_path / "corpus.jsonl"


def test_qrels_without_a_header_and_as_trec_eval_reads_them(tmp_path: Path) -> None:
    plain = read_questions(beir(tmp_path / "a", "qrels.tsv", "1\td 1\t1"))
    assert dict(plain.questions[0].documents) == {"d 1": 1}
    assert read_questions(beir(tmp_path / "b", "qrels.tsv", "1 0 d1 1")).questions[0].documents == {"d1": 1}


def test_what_is_judged_below_zero_is_not_relevant(tmp_path: Path) -> None:
    reading = read_questions(beir(tmp_path, "qrels.tsv", "1\td1\t1", "1\tspam\t-2"))
    assert reading.questions[0].documents == {"d1": 1, "spam": 0}


def test_splits(tmp_path: Path) -> None:
    beir(tmp_path, "qrels/train.tsv", "2\td1\t1")
    assert [q.id for q in read_questions(tmp_path).questions] == ["2"], "the only one is meant"
    beir(tmp_path, "qrels/test.tsv", "1\td1\t1")
    assert [q.id for q in read_questions(tmp_path).questions] == ["1"]
    assert [q.id for q in read_questions(tmp_path, "train").questions] == ["2"]
    assert "no split 'dev'" in refused(tmp_path, "dev")


@pytest.mark.parametrize(
    ("judgement", "reason"),
    [
        ("1\td1", "2 columns"),
        ("9\td1\t1", "no query '9'"),
        ("1\td1\tgood", "'good' is no number"),
        ("1\td1\tinf", "'inf' is no number up to 1,000,000"),
        ("1\td1\tnan", "'nan' is no number"),
        ("1\t\t1", "the corpus-id is empty"),
    ],
)
def test_bad_judgements(tmp_path: Path, judgement: str, reason: str) -> None:
    message = refused(beir(tmp_path, "qrels.tsv", "query-id\tcorpus-id\tscore", "1\td1\t1", judgement))
    assert "line 3: " in message and reason in message


def test_bad_folders(tmp_path: Path) -> None:
    beir(tmp_path, "qrels.tsv", "query-id\tcorpus-id\tscore")
    assert "judges none of the queries" in refused(tmp_path)
    (tmp_path / "qrels.tsv").unlink()
    assert "no qrels.tsv" in refused(tmp_path)
    written(tmp_path / "queries.jsonl", {"_id": "", "text": "x"}, {"_id": "1"})
    written(tmp_path / "qrels.tsv", "1\td1\t1")
    assert 'line 1: the "_id" is empty; line 2: the "text" is missing' in refused(tmp_path)


# -- any line


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: data.decode(errors="surrogateescape")))
def test_no_line_is_a_crash(line: str) -> None:
    try:
        json_object(line)
    except ValueError as problem:
        assert "JSON" in str(problem)


@given(st.lists(st.builds(Question, st.text(max_size=5), st.text(max_size=20)), max_size=4))
def test_the_digest_tells_sets_apart(questions: list[Question]) -> None:
    assert set_digest(questions) == set_digest(list(questions))
    assert set_digest([*questions, Question("new", "new")]) != set_digest(questions)
