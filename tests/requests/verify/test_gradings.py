"""Grades of several sources: all are stored, and which of them count."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.bank import Bank, Label
from toolbank.bank.records import Query, Tool
from toolbank.requests.verify.gradings import (
    add_gradings,
    choose_gradings,
    make_grading,
    read_gradings,
    write_gradings,
)

TOOLS = tuple(Tool(name=f"kit.t{number}") for number in range(4))
QUERIES = [Query(id=f"q{n}", query=f"do {n}", tools=("kit.t0",)) for n in range(4)]
BANK = Bank(TOOLS, tuple(QUERIES))


def grade(query, kind, source, *needed, reason=""):
    labels = [
        Label(query=query, tool=tool, grade="needed", reason=reason) for tool in needed
    ] or [Label(query=query, grade="aside", reason="unclear")]
    return make_grading(query, f"do {query[1:]}", kind, source, labels, "key")


@st.composite
def one_grade(draw, queries=("q0", "q1", "q2"), kinds=("person", "model")):
    kind = draw(st.sampled_from(kinds))
    source = draw(st.sampled_from(("ann", "bob") if kind == "person" else ("m", "n")))
    tools = draw(st.lists(st.sampled_from([t.name for t in TOOLS]), unique=True))
    return grade(draw(st.sampled_from(queries)), kind, source, *sorted(tools))


rounds = st.lists(st.lists(one_grade(), max_size=4), max_size=6)


def content(gradings):
    return Counter((one.query, one.kind, one.source, one.labels) for one in gradings)


def fold(given):
    stored = []
    for new in given:
        stored = add_gradings(stored, new)
    return stored


@given(rounds)
def test_every_grade_is_stored_once(given):
    stored = fold(given)
    assert content(stored) == Counter(set(content(one for new in given for one in new)))


@given(rounds)
def test_a_file_of_a_person_that_is_given_again_changes_nothing(given):
    stored = fold(given)
    for name in ("ann", "bob"):
        file = {one.query: one for new in given for one in new if one.source == name}
        assert add_gradings(stored, file.values()) == stored
        shown = [replace(one, candidates="other") for one in file.values()]
        assert add_gradings(stored, shown) == stored


@given(st.lists(st.lists(one_grade(kinds=("model",)), max_size=4), max_size=6))
def test_asking_all_models_again_changes_no_choice(given):
    stored = fold(given)
    chosen, again = (
        choose_gradings(BANK, gradings).of
        for gradings in (stored, fold([stored, *given]))
    )
    assert chosen == again


@given(rounds, st.lists(one_grade(), max_size=6, unique_by=lambda one: one.subject))
def test_the_same_file_given_twice_in_a_row_is_given_once(given, file):
    assert fold([*given, file, file]) == fold([*given, file])


one_person = st.lists(
    st.lists(one_grade().filter(lambda one: one.source != "bob"), max_size=4),
    max_size=6,
)


@given(one_person)
def test_a_person_comes_before_models_and_of_each_the_last_given(given):
    expected, said = {}, {}
    for kind in ("model", "person"):
        for one in (one for new in given for one in new if one.kind == kind):
            # A person who says the same again has said nothing new.
            if kind == "model" or said.get((one.source, one.query)) != one.labels:
                expected[one.query] = one.labels
            said[one.source, one.query] = one.labels
    assert choose_gradings(BANK, fold(given)).of == expected


@given(
    st.lists(one_grade(kinds=("person",)), max_size=5),
    st.lists(one_grade(kinds=("model",)), max_size=5),
    st.lists(one_grade(queries=("q3",), kinds=("person",)), max_size=3),
)
def test_the_order_of_files_that_do_not_compete_makes_no_difference(one, two, three):
    assert fold([one, two, three]) == fold([three, two, one]) == fold([two, three, one])


@given(rounds)
def test_what_is_stored_is_read_back_and_has_the_same_bytes(tmp_path_factory, given):
    path = tmp_path_factory.mktemp("store") / "grades.parquet"
    stored = fold(given)
    write_gradings(path, stored)
    before = path.read_bytes()
    assert read_gradings(path) == stored
    write_gradings(path, read_gradings(path))
    assert path.read_bytes() == before


def test_grades_stay_stored_where_their_request_or_tool_is_gone_or_has_changed():
    given = [
        grade("q0", "person", "ann", "kit.t1"),
        grade("q1", "model", "m", "kit.gone"),
        make_grading("q2", "an earlier text", "person", "ann", []),
        grade("q9", "model", "m", "kit.t1"),
    ]
    stored = fold([given])
    found = choose_gradings(BANK, stored)
    assert list(found.of) == ["q0"]
    assert found.unused == {
        "a tool is gone": 1,
        "the request has another text": 1,
        "the request is gone": 1,
    }
    assert len(stored) == 4


def test_a_person_of_an_earlier_file_is_the_person_of_a_sheet(tmp_path):
    sheet = grade("q0", "person", "ann", "kit.t1")
    labels = [
        one.model_copy(update={"source": "ann.jsonl"})
        for one in grade("q0", "person", "", "kit.t0").labels
    ]
    earlier = replace(sheet, source="ann.jsonl", labels=tuple(labels), given=1)
    path = tmp_path / "grades.parquet"
    write_gradings(path, [earlier, replace(sheet, given=2)])
    stored = read_gradings(path)
    assert [(one.source, one.labels[0].source) for one in stored] == [("ann",) * 2] * 2
    found = choose_gradings(BANK, stored)
    assert (found.of["q0"], found.open) == (sheet.labels, [])
    assert add_gradings(stored, [sheet]) == stored
    assert grade("q0", "person", "ann@lab.org").source == "ann@lab.org"
    assert grade("q0", "model", "m.json").source == "m.json"
