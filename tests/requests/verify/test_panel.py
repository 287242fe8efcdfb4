"""Two graders and a third, majorities, samples, the hole check, and batches that are partly answered."""

import json
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import cohen_kappa_score

from tests.requests.verify.test_gradings import BANK as KIT
from tests.requests.verify.test_gradings import grade
from tests.requests.verify.test_verify import BANK, by_rule, rows, shown, verify
from tests.servers.chat import Answer, ChatServer
from toolbank.bank.bank import Bank, Label
from toolbank.bank.split import find_stratum, sample_queries
from toolbank.config.explain import read_checked
from toolbank.report.sections import Verification
from toolbank.requests.verify import VerifyConfig
from toolbank.requests.verify.agreement import cohen_kappa, compare_all, fleiss_kappa
from toolbank.requests.verify.gradings import choose_gradings, make_grading
from toolbank.requests.verify.holes import DEFAULTS, HoleCheck, choose_retrievers
from toolbank.retrievers.settings import Bm25Config, FusionConfig, Tool2VecConfig
from toolbank.system.files import write_json

ONE, TWO, THREE = ({"model": name} for name in ("one", "two", "three"))


def needs(*tools):
    return Answer.json(
        {
            "needed": [{"tool": tool, "why": ""} for tool in tools],
            "alternatives": [],
            "aside": "" if tools else "Unclear.",
        }
    )


def by_name(call, choose):
    """Each model chooses among the tools in the order of their names, by the request's number."""
    text, tools = shown(call)
    number = int(text.split()[-1].rstrip("."))
    return needs(*choose(call.body["model"], number, sorted(tools)))


def half(model, number, tools):
    """One needs the first tool; two agrees for even requests; three is of two's opinion."""
    return tools[:1] if model == "one" or number % 2 == 0 else tools[1:2]


def grades_of(bank, answer, folder, **settings):
    with ChatServer(answer) as server:
        return verify(server, folder, bank, **settings), server.calls


def test_two_grade_everything_and_a_third_what_they_disagree_on(tmp_path):
    ask = partial(by_name, choose=half)
    found, calls = grades_of(BANK, ask, tmp_path, graders=[ONE, TWO, THREE])
    models = Counter(call.body["model"] for call in calls)
    assert models == {"one": 12, "two": 12, "three": 6}
    content = found.value.content
    assert content["disagreements"] == {"requests": 6, "of": 12}
    assert content["open"] == []
    [pair] = [p for p in content["kappa"]["pairs"] if p["graders"] == ("one", "two")]
    assert (pair["requests"], pair["tools"]) == (12, 72)
    grades = np.zeros((12, 6), int)
    grades[:, 0] = 1
    other = np.zeros((12, 6), int)
    other[::2, 0] = other[1::2, 1] = 1
    expected = cohen_kappa_score(grades.ravel(), other.ravel())
    for kappa in (pair["kappa"], pair["needed"]):
        assert kappa["value"] == pytest.approx(expected)
        assert kappa["low"] < expected < kappa["high"]
    # Two and three outvote one.
    chosen = {one.query: one.tool for one in found.value.labels}
    with ChatServer(by_rule) as server:
        again = verify(server, tmp_path, graders=[ONE, TWO, THREE])
        assert not server.calls
    assert again.value.content == content
    first = {
        name: min(row.tool for row in found.value.labels if row.query == name)
        for name in chosen
    }
    assert chosen == first
    assert {row.source for row in found.value.labels} == {"one", "two"}


def test_without_a_third_the_first_grader_counts(tmp_path):
    ask = partial(by_name, choose=half)
    found, _ = grades_of(BANK, ask, tmp_path, graders=[ONE, TWO])
    alone, _ = grades_of(BANK, ask, tmp_path / "alone", model="one")
    assert rows(found, "query", "tool") == rows(alone, "query", "tool")
    assert {one["kind"] for one in found.value.content["open"]} == {"model"}
    file = tmp_path / "ann.jsonl"
    needed = {one.query: one.tool for one in found.value.labels}
    said = {"query": "q1", "needed": [{"tool": needed["q1"]}]}
    file.write_text(json.dumps(said))
    # A file is read in place of the graders, which are not asked.
    more = {"engine": "recorded", "replies": file, "graders": [ONE, TWO]}
    own = verify(None, tmp_path, earlier=found.value.content, **more).value.content
    [same] = [p for p in own["kappa"]["pairs"] if p["graders"] == ("ann", "one")]
    assert (same["tools"], same["same"]) == (6, 6)
    assert {one["query"] for one in own["open"]} == {"q3", "q5", "q7", "q9", "q11"}
    assert own["panel"] == found.value.content["panel"]
    # Where one and two agree, the grades of both are in use.
    used = {one["source"]: one["used"] for one in own["graders"]}
    assert used == {"ann": 1, "one": 11, "two": 6}


def test_what_another_grader_graded_is_graded(tmp_path):
    def answer(call):
        number = int(shown(call)[0].split()[-1].rstrip("."))
        bad = number == 0 or (number == 1 and call.body["model"] == "two")
        tool = "shop.burn" if bad else min(shown(call)[1])
        needed, other = {"tool": tool, "why": ""}, {"tool": tool, "for": tool}
        return Answer.json({"needed": [needed], "alternatives": [other], "aside": ""})

    found, _ = grades_of(BANK, answer, tmp_path, graders=[ONE, TWO])
    given = found.value.content["not_graded"]
    rows_of = {(one["query"], one["model"], one.get("instead")) for one in given}
    assert rows_of == {("q0", "one", None), ("q0", "two", None), ("q1", "two", "one")}
    assert found.value.content["dropped_alternatives"] == {"graded-twice": 21}
    path = tmp_path / "verify.json"
    write_json(path, {**found.value.content, "calls": {}})
    assert read_checked(path, Verification).ungraded == 1


@pytest.mark.parametrize(
    ("graders", "told"),
    [
        ([ONE], "two or three"),
        ([ONE, ONE], "another `model`"),
        ([ONE, {**TWO, "engine": "recorded"}], "review import"),
        ([ONE, TWO, THREE, {"model": "four"}], "at most 3"),
    ],
)
def test_graders_that_can_say_nothing_of_each_other_are_refused(graders, told):
    with pytest.raises(ValueError, match=told):
        VerifyConfig(engine="openai", graders=graders)


def test_graders_inherit_the_engine(tmp_path):
    more = {**TWO, "temperature": 0.5, "price": {"input": 1, "output": 2}}
    config = VerifyConfig(engine="openai", rpm=7, max_tokens=99, graders=[ONE, more])
    first, second = config.by_grader()
    assert (first.rpm, first.max_tokens, first.engine) == (7, 99, "openai")
    assert (second.model, second.temperature, second.rpm) == ("two", 0.5, 7)
    again = VerifyConfig.model_validate(config.model_dump(mode="json"))
    assert again == config


@given(
    st.lists(
        st.lists(st.integers(0, 5), min_size=4, max_size=4), min_size=2, max_size=2
    )
)
def test_kappa_is_that_of_scikit_learn(cells):
    table = np.array([cells[0][:2], cells[1][:2]]) + 1
    first = np.repeat([0, 0, 1, 1], table.ravel())
    second = np.repeat([0, 1, 0, 1], table.ravel())
    assert cohen_kappa(table) == pytest.approx(cohen_kappa_score(first, second))
    assert np.isnan(cohen_kappa(np.array([[3, 0], [0, 0]])))


def test_fleiss_kappa_is_that_of_a_worked_example():
    # The ten subjects and 14 raters of https://en.wikipedia.org/wiki/Fleiss%27_kappa.
    rows = "000014 02642 00356 03920 22811 77000 32630 25322 65210 02237"
    counts = [[0, 0, 0, 0, 14], *([int(n) for n in row] for row in rows.split()[1:])]
    assert fleiss_kappa(np.array(counts)) == pytest.approx(0.210, abs=5e-4)
    assert fleiss_kappa(np.array([[3, 0], [0, 3]])) == 1


def votes(*tools, kind="person", names=("ann", "bob", "cid", "dot")):
    return [
        grade("q0", kind, name, *one) for name, one in zip(names, tools, strict=False)
    ]


T0, T1, T2 = ("kit.t0",), ("kit.t1",), ("kit.t2",)


@pytest.mark.parametrize(
    ("people", "needed", "open_tools"),
    [
        ([T1, T1, T2], T1, []),
        ([T1, T2], T0, [""]),
        ([T0 + T1, T0 + T2], T0, ["kit.t1", "kit.t2"]),
        ([T1, T2, T0], T0, [""]),
        ([(), (), T1], (), []),
        ([(), T1], T0, [""]),
        ([(), T1, T1], T1, []),
        ([T1 + T2, T1, T1 + T2], T1 + T2, []),
    ],
)
def test_the_majority_of_people_counts_and_else_the_models_grade(
    people, needed, open_tools
):
    model = grade("q0", "model", "m", *T0)
    found = choose_gradings(KIT, [model, *votes(*people)])
    assert tuple(one.tool for one in found.of["q0"] if one.tool) == needed
    assert [row["tool"] for row in found.open] == open_tools
    assert all(row["votes"].keys() <= {"ann", "bob", "cid"} for row in found.open)


@given(
    st.lists(st.sets(st.sampled_from([tool.name for tool in KIT.tools])), max_size=4)
)
def test_a_strict_majority_decides_whatever_the_order(people):
    model = grade("q0", "model", "m", *T0)
    needed, open_tools = (set(), set()), (set(), set())
    for turn in (0, 1):
        ordered = map(sorted, people[:: 1 - 2 * turn])
        found = choose_gradings(KIT, [model, *votes(*ordered)])
        needed[turn].update(one.tool for one in found.of["q0"] if one.tool)
        open_tools[turn].update(row["tool"] for row in found.open)
    assert needed[0] == needed[1]
    assert open_tools[0] == open_tools[1]
    graders = [one for one in people if one]
    if 2 * len(graders) > len(people) and "" not in open_tools[0]:
        for tool in KIT.tool_names:
            times = sum(tool in one for one in graders)
            if 2 * times != len(graders):
                assert (tool in needed[0]) == (2 * times > len(graders))
            else:
                assert tool in open_tools[0]


def test_where_no_model_graded_the_first_labels_stay():
    assert "q0" not in choose_gradings(KIT, votes(T1, T2)).of
    found = choose_gradings(KIT, votes(T0 + T1, T1))
    assert [one.tool for one in found.of["q0"]] == ["kit.t0", "kit.t1"]


def test_an_alternative_stands_for_what_most_people_say():
    def one(name, stands_for):
        labels = [Label(query="q0", tool=t, grade="needed") for t in T0 + T1]
        labels.append(Label.alternative("q0", *T2, stands_for, name))
        return make_grading("q0", "do 0", "person", name, labels, "key")

    given = [one("ann", *T0), one("bob", *T1), one("cid", *T1)]
    found = choose_gradings(KIT, given)
    assert [x.stands_for for x in found.of["q0"] if x.grade == "alternative"] == [*T1]


def test_people_are_compared_with_each_other_and_with_the_model():
    given = [grade("q0", "model", "m", *T0), *votes(T0, T0, T1)]
    sources = {(one.kind, one.source): {"q0": one} for one in given}
    shown_first = {("q0", "key"): [tool.name for tool in KIT.tools]}
    found = compare_all(sources, shown_first, seed=0)
    assert len(found.pairs) == 6
    by_pair = {pair.graders: pair.kappa.value for pair in found.pairs}
    assert by_pair["ann", "bob"] == by_pair["m", "ann"] == 1
    expected = cohen_kappa_score([1, 0, 0, 0], [0, 1, 0, 0])
    assert by_pair["ann", "cid"] == pytest.approx(expected)
    assert (found.fleiss.people, found.fleiss.tools) == (3, 4)
    # A tool that one of them was not shown says nothing.
    assert compare_all(sources, {}, seed=0) is None


QUERIES = st.lists(
    st.tuples(st.sampled_from(["train", "test", None]), st.integers(1, 6))
)


@given(QUERIES, st.integers(0, 40), st.integers(0, 40), st.integers(-3, 3))
def test_a_sample_is_proportional_and_grows(kinds, n, more, seed):
    query = BANK.queries[0]
    queries = [
        query.model_copy(update={"id": f"{i}", "split": split, "tools": ("t",) * tools})
        for i, (split, tools) in enumerate(kinds)
    ]
    drawn = sample_queries(queries, n, seed)
    assert len(drawn) == min(n, len(queries))
    assert drawn == sample_queries(queries, n, seed)
    larger = sample_queries(queries, n + more, seed)
    assert {q.id for q in drawn} <= {q.id for q in larger}
    of, got = (Counter(map(find_stratum, some)) for some in (queries, drawn))
    # By places in equal steps, a stratum is at most two off its share.
    for stratum, size in of.items():
        assert abs(got[stratum] - size * len(drawn) / len(queries)) < 2


def test_a_sample_alone_is_graded_and_its_rates_have_intervals(tmp_path):
    found, calls = grades_of(BANK, by_rule, tmp_path, sample=5)
    assert len(calls) == 5
    content = found.value.content
    assert (content["sample"]["size"], content["sample"]["of"]) == (5, 12)
    assert content["verified"] == {"count": 5, "n": 12, "share": 5 / 12}
    rate = content["rates"]["first_labels_needed"]
    assert rate["n"] == 10
    assert 0 <= rate["low"] <= rate["share"] < rate["high"]
    with ChatServer(by_rule) as server:
        verify(server, tmp_path, sample=8)
        assert len(server.calls) == 3


TESTED = Bank(
    BANK.tools,
    tuple(
        q.model_copy(update={"split": "test" if n % 2 else "train"})
        for n, q in enumerate(BANK.queries)
    ),
)


def test_holes_are_what_retrievers_find_and_nobody_has_seen(tmp_path):
    def answer(call):
        if len(shown(call)[1]) == 2:
            return needs(shown(call)[1][0])
        # The hole check shows more: all of them are needed.
        return needs(*shown(call)[1])

    few = {"candidates": 2, "holes": 4}
    found, calls = grades_of(TESTED, answer, tmp_path, **few)
    assert len(calls) == 12 + 4
    holes = found.value.content["holes"]
    assert (holes["requests"], holes["not_graded"]) == (4, 0)
    assert holes["relevant"]["share"] == 1
    assert holes["missing"]["count"] == holes["unseen"] == len(holes["tools"])
    assert holes["missing"]["n"] == holes["unseen"] + 4
    assert set(holes["retrievers"]) >= {"bm25", "descriptions", "nearest", "tool2vec"}
    before, after = (
        [one[key] for one in holes["retrievers"].values()]
        for key in ("before", "after")
    )
    tau = kendalltau(before, after).statistic
    assert holes["tau"] == (None if np.isnan(tau) else pytest.approx(tau))
    # The labels are those that the candidates gave.
    assert {one.query for one in found.value.labels} == {q.id for q in TESTED.queries}
    assert len(found.value.labels) == 12
    with ChatServer(answer) as server:
        again = verify(server, tmp_path, TESTED, **few)
        assert not server.calls
        verify(server, tmp_path, TESTED, **{**few, "holes": 6})
        assert len(server.calls) == 2
    assert again.value.content == found.value.content


def test_the_hole_check_pools_the_retrievers_of_the_recipe():
    own = [
        Bm25Config(name="mine", requests=True),
        Bm25Config(),
        Tool2VecConfig(name="trained", training={"epochs": 1}),
        FusionConfig(),
    ]
    labels = [one.label for one in choose_retrievers(own)]
    assert labels == ["mine", "descriptions", "nearest", "tool2vec"]


def test_what_a_person_labelled_and_no_grader_saw_is_no_hole():
    query = TESTED.queries[1]
    other = next(name for name in TESTED.tool_names if name not in query.tools)
    bank = Bank(TESTED.tools[:9], (TESTED.queries[0], query))
    labels = [
        Label(query=query.id, tool=t, grade="needed") for t in (*query.tools, other)
    ]
    check = HoleCheck(bank, labels, {query.id: query.tools}, DEFAULTS, 1, 0)
    [graded], candidates = check.to_grade
    tools = [one.tool for one in candidates[graded.id]]
    assert len(tools) == len(set(tools))
    found = check.measure({query.id: labels})
    assert (found.missing.count, found.missing.n) == (0, 3)


def test_a_hole_check_without_holes_asks_for_nothing(tmp_path):
    found, calls = grades_of(TESTED, by_rule, tmp_path, candidates=100, holes=50)
    assert len(calls) == 12
    holes = found.value.content["holes"]
    assert (holes["requests"], holes["missing"]["count"], holes["order_changes"]) == (
        6,
        0,
        False,
    )
    assert holes["tau"] in (None, 1)
    told = next(one for one in found.problems if one.startswith("hole check"))
    assert ("cannot be told" in told) == (holes["tau"] is None)
    assert ("stays" in told) == (holes["tau"] == 1)


def test_a_hole_check_that_lacks_grades_is_named(tmp_path):
    def answer(call):
        first = len(shown(call)[1]) == 2
        return needs(shown(call)[1][0]) if first else Answer(status=400)

    found, _ = grades_of(TESTED, answer, tmp_path, candidates=2, holes=4)
    assert found.lacks.startswith("hole check: grades of 4 of 4")
