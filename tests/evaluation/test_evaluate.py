"""Records of an evaluation: sets, unknown names, empty parts."""

import numpy as np
import pytest

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool
from toolbank.evaluation.config import EvaluateConfig
from toolbank.evaluation.evaluate import make_figures, measure
from toolbank.evaluation.figures import SetLabels
from toolbank.evaluation.sets import describe_labels, held_out_set, make_set
from toolbank.evaluation.table import format_notes, format_table
from toolbank.retrievers import create_retriever
from toolbank.retrievers.bm25.config import Bm25Config
from toolbank.system.errors import InputError

CONFIG = EvaluateConfig(ks=(1, 2, 5), resamples=100)


def make_query(text, *tools, split=None):
    return Query(id=text, query=text, tools=tools, split=split)


@pytest.fixture
def bank():
    return Bank(
        tools=(
            Tool(name="lab.mean", kind="function", summary="Average of numbers."),
            Tool(
                name="lab.sort",
                kind="function",
                summary="Put rows in order.",
                aliases=("lab.order",),
            ),
            Tool(name="lab.plot", kind="function", summary="Draw a chart."),
        ),
        queries=(
            make_query("average then chart", "lab.mean", "lab.plot", split="train"),
            make_query("chart of the average", "lab.plot", "lab.mean", split="test"),
            make_query("rows in order", "lab.order", split="test"),
        ),
    )


@pytest.fixture
def retriever(bank):
    fitted = create_retriever(Bm25Config())
    fitted.fit(bank)
    return fitted


def evaluate(retriever, evaluated, config, seed):
    return make_figures(measure(retriever, evaluated, config), config, seed)


def pick(records, **wanted):
    (record,) = [
        r for r in records if all(getattr(r, k) == v for k, v in wanted.items())
    ]
    return record


def test_records_name_retriever_set_metric_and_k(bank, retriever):
    records = evaluate(retriever, held_out_set(bank), CONFIG, seed=0)
    assert len(records) == 5 * (3 * 3 + 1)
    record = pick(records, set="test", metric="recall", k=2)
    assert record.retriever == "bm25"
    assert record.value == 1.0
    assert record.n == 2
    assert 0 <= record.low <= record.value <= record.high <= 1
    assert pick(records, set="test", metric="mrr").k is None


def part(bank, name):
    held_out = held_out_set(bank)
    return [held_out.queries[row] for row in held_out.parts[name]]


def test_tool_sets_of_train_are_told_apart_whatever_their_order(bank):
    assert part(bank, "test-seen-sets") == ["chart of the average"]
    assert part(bank, "test-unseen-sets") == ["rows in order"]


def test_tools_of_train_are_told_apart(bank):
    both = make_query("rows of the chart", "lab.sort", "lab.plot", split="test")
    more = Bank(bank.tools, (*bank.queries, both))
    assert part(more, "test-seen-tools") == ["chart of the average"]
    assert part(more, "test-unseen-tools") == ["rows in order", "rows of the chart"]


def test_an_alias_makes_a_seen_set(bank):
    train = make_query("order them", "lab.sort", split="train")
    more = Bank(bank.tools, (*bank.queries, train))
    assert len(part(more, "test-seen-sets")) == 2
    assert part(more, "test-unseen-tools") == []


def test_a_part_that_is_empty_is_left_out(bank, retriever):
    train = make_query("order them", "lab.sort", split="train")
    more = Bank(bank.tools, (*bank.queries, train))
    records = evaluate(retriever, held_out_set(more), CONFIG, seed=0)
    assert {record.set for record in records} == {
        *("test", "test-seen-sets", "test-seen-tools")
    }
    told = format_table(records)
    assert "test-seen-sets, test-seen-tools: all of test" in told
    assert "unseen" not in told


def test_an_empty_test_is_shown_as_such(bank, retriever):
    train_only = Bank(bank.tools, bank.queries[:1])
    records = evaluate(retriever, held_out_set(train_only), CONFIG, seed=0)
    record = pick(records, metric="mrr")
    assert (record.n, record.value, record.low) == (0, None, None)
    assert format_table(records) == "test: no queries (n = 0)"


def test_an_unknown_name_counts_as_not_found_and_is_reported(bank, retriever):
    queries = [
        make_query("rows in order", "lab.sort", "lab.gone"),
        make_query("rows in order again", "lab.gone", "lab.lost"),
    ]
    labelled = make_set("mine", bank, queries, refusals=4)
    records = evaluate(retriever, labelled, CONFIG, seed=0)
    assert pick(records, metric="recall", k=5).value == 0.25
    assert pick(records, metric="comp", k=5).value == 0
    assert describe_labels(labelled) == SetLabels(
        "mine", 2, {"lab.gone": 2, "lab.lost": 1}, 4
    )
    notes = format_notes([describe_labels(labelled)])
    assert "lab.gone" in notes
    assert "4 lines need no tool" in notes


def test_two_unknown_names_are_two_tools(bank):
    labelled = make_set("mine", bank, [make_query("x", "lab.gone", "lab.lost")])
    assert len(labelled.gold[0]) == 2
    assert labelled.padded_gold().min() >= len(bank.tools)


def test_two_names_of_one_tool_are_one(bank):
    labelled = make_set("mine", bank, [make_query("x", "lab.sort", "lab.order")])
    assert labelled.gold == (frozenset({1}),)


def test_a_retriever_of_other_tools_is_refused(bank, retriever):
    other = Bank(bank.tools[:2], bank.queries)
    with pytest.raises(InputError, match="fitted on 3 tools"):
        evaluate(retriever, held_out_set(other), CONFIG, seed=0)


def test_the_same_seed_gives_the_same_records(bank, retriever):
    first = evaluate(retriever, held_out_set(bank), CONFIG, seed=5)
    assert evaluate(retriever, held_out_set(bank), CONFIG, seed=5) == first


def test_the_table_shows_percent_and_the_interval_at_five(bank, retriever):
    table = format_table(evaluate(retriever, held_out_set(bank), CONFIG, seed=0))
    lines = table.splitlines()
    assert lines[0] == "test (n = 2, percent)"
    assert " ".join(lines[1].split()) == (
        "retriever R@1 R@2 R@5 95 % nDCG@5 COMP@5 MRR"
    )
    assert "100.0 to 100.0" in lines[2]


def test_metrics_need_no_five(bank, retriever):
    config = EvaluateConfig(ks=(2, 3), resamples=100)
    records = evaluate(retriever, held_out_set(bank), config, seed=0)
    assert "nDCG@2" in format_table(records)
    assert np.isclose(pick(records, set="test", metric="recall", k=3).value, 1)
