from dataclasses import replace

import numpy as np
import pytest

from tests.retrievers.small_methods import fit_one
from toolbank.bank.bank import Bank, Label
from toolbank.bank.records import Ask, Query, Tool
from toolbank.evaluation import EvaluateConfig
from toolbank.evaluation.evaluate import make_figures, measure
from toolbank.evaluation.figures import SetLabels
from toolbank.evaluation.sets import (
    describe_labels,
    held_out_set,
    make_set,
    verified_set,
)
from toolbank.evaluation.tables import format_details, format_notes, format_table
from toolbank.retrievers.settings import Bm25Config
from toolbank.system.errors import InputError

CONFIG = EvaluateConfig(ks=(1, 2, 5), resamples=100)


def make_query(text, *tools, split=None):
    return Query(id=text, query=text, tools=tools, split=split)


@pytest.fixture
def bank():
    return Bank(
        tools=(
            Tool(name="lab.mean", summary="Average of numbers."),
            Tool(name="lab.sort", summary="In order.", aliases=("lab.order",)),
            Tool(name="lab.plot", summary="Draw a chart."),
        ),
        queries=(
            make_query("average then chart", "lab.mean", "lab.plot", split="train"),
            make_query("chart of the average", "lab.plot", "lab.mean", split="test"),
            make_query("rows in order", "lab.order", split="test"),
        ),
    )


@pytest.fixture
def retriever(bank):
    return fit_one(Bm25Config(), bank)


def evaluate(retriever, evaluated, config=CONFIG):
    return make_figures(measure(retriever, evaluated, config), config, 0)


def pick(records, **wanted):
    [one] = (r for r in records if wanted.items() <= vars(r).items())
    return one


def test_records_name_retriever_set_metric_and_k(bank, retriever):
    records = evaluate(retriever, held_out_set(bank))
    assert len(records) == 5 * (3 * 3 + 1)
    record = pick(records, set="test", metric="recall", k=2)
    assert record.retriever == "bm25"
    assert record.value == 1.0
    assert record.n == 2
    assert (record.low, record.high) == (None, None)
    assert pick(records, set="test", metric="mrr").k is None


SET, TOOLS = "chart of the average", "rows in order"
MORE = "rows of the chart"
SEEN = {"test-unseen-sets": [], "test-unseen-tools": []}


def ask(*names):
    return {"asks": tuple(Ask(tool=n, kind="terse", ask="do it") for n in names)}


@pytest.mark.parametrize(
    ("queries", "asks", "parts"),
    [
        ((), {}, {"test-seen-sets": [SET], "test-unseen-sets": [TOOLS]}),
        (
            (make_query(MORE, "lab.sort", "lab.plot", split="test"),),
            {},
            {"test-seen-tools": [SET], "test-unseen-tools": [TOOLS, MORE]},
        ),
        ((), ask("lab.sort"), SEEN),
        ((), ask("lab.mean", "lab.sort", "lab.plot"), SEEN),
        ((make_query("order them", "lab.sort", split="train"),), {}, SEEN),
    ],
    ids=["sets", "tools", "ask", "shared ask", "alias"],
)
def test_parts_tell_what_train_requests_have_shown(bank, queries, asks, parts):
    held_out = held_out_set(replace(bank, queries=(*bank.queries, *queries), **asks))
    for name, expected in parts.items():
        assert [held_out.queries[row] for row in held_out.parts[name]] == expected


def test_unknown_names_are_tools_of_their_own_and_an_alias_is_its_tool(bank):
    queries = [
        make_query("x", "lab.gone", "lab.lost"),
        make_query("y", "lab.sort", "lab.order"),
    ]
    gold = make_set("mine", bank, queries).gold
    assert gold == (frozenset({3, 4}), frozenset({1}))


def test_a_part_that_is_empty_is_left_out(bank, retriever):
    train = make_query("order them", "lab.sort", split="train")
    more = Bank(bank.tools, (*bank.queries, train))
    records = evaluate(retriever, held_out_set(more))
    sets = {record.set for record in records}
    assert sets == {"test", "test-seen-sets", "test-seen-tools"}
    told = " ".join(format_details(records, []).split())
    assert told.count("This is all of test.") == 2 and "unseen" not in told


def test_an_empty_test_is_shown_as_such(bank, retriever):
    train_only = Bank(bank.tools, bank.queries[:1])
    records = evaluate(retriever, held_out_set(train_only))
    record = pick(records, metric="mrr")
    assert (record.n, record.value, record.low) == (0, None, None)
    assert "(n = 0)" in format_table(records)


def test_the_users_own_set_is_the_one_to_look_at(bank, retriever):
    own = make_set("people", bank, [make_query("rows in order", "lab.sort")])
    test = evaluate(retriever, held_out_set(bank))
    records = test + evaluate(retriever, own)
    assert "evaluate.on" in format_table(records)
    assert "evaluate.on" not in format_table(test)


def test_where_a_bank_has_twins_a_second_figure_counts_them(bank, retriever):
    assert "twin" not in format_table(evaluate(retriever, held_out_set(bank)))
    mean, *others = bank.tools
    mean = mean.model_copy(update={"twins": ("lab.plot",)})
    twins = replace(bank, tools=(mean, *others))
    # "rows" finds lab.sort alone; "chart of" lab.plot, which is as good as lab.mean.
    queries = [make_query("rows", "lab.mean"), make_query("chart", "lab.mean")]
    records = evaluate(retriever, make_set("mine", twins, queries))
    assert pick(records, metric="recall", k=5).value == 0
    assert pick(records, metric="recall_or_twin", k=5).value == 0.5
    told = format_table(records)
    assert "or twin" in told.splitlines()[-3] + told.splitlines()[-2]
    assert "50.0" in told.splitlines()[-2]


def test_an_unknown_name_counts_as_not_found_and_is_reported(bank, retriever):
    queries = [
        make_query("rows in order", "lab.sort", "lab.gone"),
        make_query("rows in order again", "lab.gone", "lab.lost"),
    ]
    labelled = make_set("mine", bank, queries, refusals=4)
    records = evaluate(retriever, labelled)
    assert pick(records, metric="recall", k=5).value == 0.25
    assert pick(records, metric="comp", k=5).value == 0
    uses = {"lab.gone": 2, "lab.lost": 1}
    assert describe_labels(labelled) == SetLabels("mine", 2, uses, 4)
    notes = format_notes([describe_labels(labelled)])
    for part in ("lab.gone", "2 labels", "3 uses", "4 lines"):
        assert part in notes
    notes = format_notes([SetLabels("mine", 1, {"lab.gone": 1}, 1)])
    for part in ("1 label ", "1 use,", "1 line "):
        assert part in notes


def test_a_retriever_of_other_tools_is_refused(bank, retriever):
    other = Bank(bank.tools[:2], bank.queries)
    with pytest.raises(InputError, match="fitted on 3 tools"):
        evaluate(retriever, held_out_set(other))


def test_of_two_requests_there_are_figures_and_no_interval(bank, retriever):
    table = format_table(evaluate(retriever, held_out_set(bank)))
    *_, sets, header, row, note = table.splitlines()
    assert sets.strip() == "test (n = 2)"
    assert header.split() == ["retriever", "R@5", "(95", "%", "interval)", "COMP@5"]
    assert row.split() == ["bm25", "100.0", "100.0"]
    assert note == "No interval is given if n is below 10."


def test_no_table_is_wider_than_a_terminal(bank, retriever):
    test = [
        make_query(f"rows {i}", *tools, split="test")
        for i in range(10)
        for tools in (("lab.sort",), ("lab.mean", "lab.plot"), ("lab.mean", "lab.sort"))
    ]
    train = make_query("rows", "lab.mean", "lab.plot", split="train")
    seen = Bank(bank.tools, (train, *test))
    names = ("x" * 60, "y" * 60)
    sets = [held_out_set(seen), *(make_set(name, bank, test[:12]) for name in names)]
    records = [
        replace(record, retriever=name)
        for name in ("bm25", "a-name-of-some-length-" * 3)
        for one in sets
        for record in evaluate(retriever, one, EvaluateConfig(ks=range(1, 30)))
    ]
    told = format_table(records) + "\n" + format_details(records, [])
    assert all(part in told for part in ("unseen-sets (n = 20)", "seen-tools (n = 10)"))
    assert max(map(len, told.splitlines())) <= 90


def test_by_verified_labels_an_alternative_fills_the_place_of_its_needed_tool():
    tools = tuple(Tool(name=name, summary="Sort.") for name in ("a", "b", "c"))
    queries = tuple(
        make_query(text, tool, split="test")
        for text, tool in (("x", "a"), ("y", "b"), ("z", "c"))
    )
    labels = (
        Label(query="x", tool="b", grade="needed"),
        Label.alternative("x", "c", "b", ""),
        Label(query="y", grade="aside", reason="two readings"),
    )
    bank = Bank(tools, queries, labels=labels)
    retriever = fit_one(Bm25Config(), bank)
    found = verified_set(bank)
    assert found.queries == ("x", "z")
    hits = np.array([[2, 0, 1], [2, 0, 1]]), np.zeros((2, 3), np.float32)
    config = EvaluateConfig(ks=(1,))
    measured = measure(retriever, found, config, hits)
    assert measured.metrics(config)[0] == ("recall", 1)
    assert measured.values[:, 0].tolist() == [1, 1]
    hits = np.array([[2, 0, 1]] * 3), np.zeros((3, 3), np.float32)
    strict = measure(retriever, held_out_set(bank), config, hits)
    assert strict.values[:, 0].tolist() == [0, 0, 1]
    assert verified_set(Bank(tools, queries)) is None
