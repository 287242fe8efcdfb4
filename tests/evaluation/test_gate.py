"""Gates on figures: pure, from hits to verdicts."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.world import make_bank
from toolbank.bank.records import Query
from toolbank.evaluation import EvaluateConfig
from toolbank.evaluation.evaluate import Found, make_figures, score_hits
from toolbank.evaluation.gate import (
    GateResult,
    check_against,
    check_minima,
    find_changes,
    pair_up,
    parse_threshold,
)
from toolbank.evaluation.gate_report import format_gate, format_junit, gate_record
from toolbank.evaluation.sets import make_set
from toolbank.system.errors import InputError

CONFIG = EvaluateConfig(ks=(1, 3), resamples=200)
TOOLS = tuple("abcdef")
N = 40
BANK = make_bank(dict.fromkeys(TOOLS, "Does it."))
METRICS = [("recall", 3), ("mrr", None)]


def requests(n=N, need=lambda i: TOOLS[i % 6]):
    return [Query(id=str(i), query=f"do {i}", tools=(need(i),)) for i in range(n)]


def measured(ranks, queries=None, bank=BANK):
    """Hits where the needed tool of request i has this rank, from 0; None if it is not found."""
    evaluated = make_set("mine", bank, queries or requests(len(ranks)))
    hits = np.full((len(ranks), 6), -1)
    for row, (rank, gold) in enumerate(zip(ranks, evaluated.gold, strict=True)):
        [needed] = gold
        others = [i for i in range(6) if i != needed]
        ranked = (
            [*others[:rank], needed, *others[rank:]] if rank is not None else others
        )
        hits[row, : len(ranked)] = ranked
    scores = np.zeros(hits.shape, np.float32)
    return score_hits("words", evaluated, CONFIG, (hits, scores))


def written(one):
    """The lines of a file of hits."""
    evaluated = one.evaluated
    names = (*evaluated.tools, *evaluated.unknown)
    return [
        Found(
            evaluated.name,
            *row[:3],
            tuple(names[i] for i in row[3] if i >= 0),
        )
        for row in zip(
            evaluated.ids, evaluated.queries, evaluated.labels, one.hits, strict=True
        )
    ]


def compare(before, after, tolerance=0.0):
    pairing = pair_up(after, "mine", written(before), CONFIG)
    figures = make_figures(after, CONFIG, 0)
    checks = check_against(pairing, METRICS, figures, "old", tolerance, CONFIG, 0)
    return checks, find_changes(pairing, 3, CONFIG), pairing


RANKS = st.lists(st.one_of(st.none(), st.integers(0, 5)), min_size=10, max_size=40)


@given(RANKS)
def test_an_evaluation_passes_against_itself(ranks):
    checks, changes, _ = compare(measured(ranks), measured(ranks))
    assert all(check.passed and check.before == check.after for check in checks)
    assert not changes.lost and not changes.won


@given(RANKS, st.integers(0, 5), st.data())
def test_what_passes_also_passes_with_a_better_hit(ranks, better, data):
    before = measured(data.draw(st.permutations(ranks)))
    place = data.draw(st.integers(0, len(ranks) - 1))
    higher = [*ranks]
    higher[place] = min(better, 5 if ranks[place] is None else ranks[place])
    low, high = (compare(before, measured(one))[0][0] for one in (ranks, higher))
    assert high.after >= low.after
    assert high.passed >= low.passed


@given(RANKS, st.data())
def test_lost_and_won_are_all_that_changes_the_recall(ranks, data):
    before = data.draw(st.permutations(ranks))
    checks, changes, _ = compare(measured(before), measured(ranks))
    gain = (len(changes.won) - len(changes.lost)) / len(ranks)
    assert checks[0].after - checks[0].before == pytest.approx(gain)
    for one in changes.lost:
        row = int(one.id)
        told = [None if r[row] is None else r[row] + 1 for r in (before, ranks)]
        [tool] = one.tools
        assert [tool.before, tool.after] == told
        assert told[0] <= 3 and (told[1] or 9) > 3


def test_a_clear_loss_fails_and_a_tolerated_one_does_not():
    before, after = measured([0] * N), measured([0] * 30 + [5] * 10)
    assert [check.passed for check in compare(before, after)[0]] == [False, False]
    assert all(check.passed for check in compare(before, after, tolerance=0.3)[0])
    few = measured([0] * 38 + [5] * 2)
    assert compare(before, few)[0][0].passed


@pytest.mark.parametrize(
    ("before", "after"),
    [([2] * N, [3] * N), ([0, *[None] * 39], [None] * N), ([0] * 10, [None] * 10)],
)
def test_an_equal_loss_and_finding_nothing_fail(before, after):
    checks = compare(measured(before), measured(after), tolerance=0.005)[0]
    assert [check.passed for check in checks] == [False, False]


def test_only_requests_with_the_same_text_and_tools_are_compared():
    before = measured([0] * N)
    queries = [*requests(30), *requests(32, lambda _: "a")[30:], *requests(45)[40:]]
    _, changes, pairing = compare(before, measured([5] * 37, queries))
    # Request 30 needs `a` in both; 31 has other tools now.
    assert (changes.n, changes.only_new, changes.only_old) == (31, 6, 9)
    assert [one.id for one in changes.lost] == [str(i) for i in range(31)]
    assert pairing.after.evaluated.queries == tuple(one.query for one in queries)
    with pytest.raises(InputError, match=r"0 requests of mine \(n = 40\).*evaluate.on"):
        other = make_set("mine", BANK, [replace_query(q) for q in requests()])
        compare(before, replace(before, evaluated=other))


def replace_query(query):
    return query.model_copy(update={"query": f"please {query.query}"})


def test_a_tool_that_is_gone_loses_its_requests_and_an_alias_does_not():
    before = measured([0] * N)
    without = make_bank(dict.fromkeys("bcdefg", "Does it."))
    lacking = make_set("mine", without, requests())
    nothing = np.full((N, 6), -1), np.zeros((N, 6), np.float32)
    _, changes, _ = compare(before, score_hits("words", lacking, CONFIG, nothing))
    assert changes.n == len(changes.lost) == N
    assert {one.tools[0].tool for one in changes.lost} == {*TOOLS}
    renamed = tuple(
        tool.model_copy(update={"name": "z", "aliases": ("a",)})
        if tool.name == "a"
        else tool
        for tool in BANK.tools
    )
    now = measured([0] * N, bank=replace(BANK, tools=renamed))
    assert now.evaluated.labels[0] == ("z",)
    _, changes, _ = compare(before, now)
    assert (changes.n, changes.lost, changes.won) == (N, (), ())


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("recall@5=0.80", ("", ("recall", 5), 0.8)),
        ("mrr=.5", ("", ("mrr", None), 0.5)),
        ("a: b:comp@10=1", ("a: b", ("comp", 10), 1.0)),
    ],
)
def test_a_threshold_is_read(text, parts):
    one = parse_threshold(text)
    assert (one.set, one.metric, one.minimum) == parts


@pytest.mark.parametrize(
    "text", ["recall@5", "recall@5=80", "recall@0=0.5", "=0.5", "recall@5=-1", "r=nan"]
)
def test_another_threshold_is_refused_with_an_example(text):
    with pytest.raises(InputError, match=r"METRIC@K=VALUE.*recall@5=0\.80"):
        parse_threshold(text)


def test_the_value_counts_and_not_the_interval():
    figures = make_figures(measured([0] * 30 + [None] * 10), CONFIG, 0)
    minima = [parse_threshold(text) for text in ("recall@1=0.75", "recall@1=0.751")]
    reached, missed = check_minima(figures, minima, "words", ["mine"])
    assert (reached.passed, missed.passed) == (True, False)
    assert missed.figure.high > 0.751
    told = missed.describe()
    for part in ("0.750", "0.751", "n = 40", f"{missed.figure.low:.3f}"):
        assert part in told
    for text in ("recall@5=0.5", "other:mrr=0.5"):
        with pytest.raises(
            InputError, match=r"Metrics: recall@1, .*mrr.* Sets: mine\."
        ):
            check_minima(figures, [parse_threshold(text)], "words", ["mine"])


# The elements of junit-10.xsd of Jenkins' xUnit plugin, with their attributes; the required first.
SCHEMA = {
    "testsuites": ((), {"name", "time", "tests", "failures", "errors"}),
    "testsuite": (("name", "tests", "failures", "errors"), {"skipped", "time"}),
    "testcase": (("name",), {"time", "classname", "group"}),
    "failure": ((), {"type", "message"}),
}


def gate(name="runs/new"):
    before, after = measured([0] * N), measured([0] * 20 + [5] * 20)
    checks, changes, _ = compare(before, after)
    figures = make_figures(after, CONFIG, 0)
    minima = [parse_threshold(text) for text in ("recall@1=0.5", "recall@3=0.9")]
    reached = check_minima(figures, minima, "words", ["mine"])
    return GateResult(name, "old", "words", (*reached, *checks), (changes,))


def test_junit_has_a_case_per_check_in_the_fields_of_the_schema():
    root = ElementTree.fromstring(format_junit(gate("a <b> & \x07\ud800")).encode())
    for element in root.iter():
        required, optional = SCHEMA[element.tag]
        assert {*required} <= element.attrib.keys() <= {*required, *optional}
    [suite] = root
    assert suite.get("name") == "a <b> & \ufffd\ufffd"
    for element in (root, suite):
        assert (element.get("tests"), element.get("failures")) == ("4", "3")
    names = [(case.get("classname"), case.get("name")) for case in suite]
    # GitLab drops all but the first case of a name.
    assert len({*names}) == 4 and {owner for owner, _ in names} == {"mine.words"}
    failures = [[*case] for case in suite]
    assert [len(one) for one in failures] == [0, 1, 1, 1]
    for [failure] in failures[1:]:
        assert failure.get("message") in failure.text
    assert "do 20" in failures[2][0].text and "do 20" not in failures[1][0].text


def test_the_terminal_has_the_first_lost_requests_and_json_all():
    result = gate()
    text = format_gate(result)
    assert text.count("rank 1, now 6") == 10
    assert "and 10 more; `--json FILE`" in text
    record = gate_record(result)
    assert record["passed"] is False
    [changes] = record["changes"]
    assert [row["id"] for row in changes["lost"]] == [str(i) for i in range(20, 40)]
    assert [*changes["lost"][0]["tools"]] == [{"tool": "c", "before": 1, "after": 6}]
    assert [check["passed"] for check in record["checks"]] == [
        True,
        False,
        False,
        False,
    ]
