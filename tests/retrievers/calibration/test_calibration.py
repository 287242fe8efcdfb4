import numpy as np
import pytest

from tests.retrievers.small_methods import fit_one
from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool
from toolbank.retrievers import calibration_fit as fit
from toolbank.retrievers import create_retriever
from toolbank.retrievers.base import FitContext
from toolbank.retrievers.calibration import DEPTH, read_signals, remove_hits
from toolbank.retrievers.calibration_fit import (
    choose_threshold,
    find_families,
    find_foreign_requests,
    find_own,
    fit_calibration,
)
from toolbank.retrievers.settings import Bm25Config, FusionConfig

THINGS = "door window lamp oven radio fridge curtain alarm heater fan bell clock"
TOOLS = tuple(
    Tool(name=f"{thing}.{deed}", summary=f"{deed.capitalize()} the {thing} of a house.")
    for thing in THINGS.split()
    for deed in ("open", "close", "repair", "sell")
)


def make_bank(n=60):
    queries = tuple(
        Query(
            id=str(number),
            query=f"please {tool.summary.lower()} it is the {number}th time",
            tools=(tool.name,),
            split="validation" if number % 2 else "test",
        )
        for number, tool in zip(range(n), TOOLS * 2, strict=False)
    )
    return Bank(TOOLS, queries)


def fit_on_validation(retriever, bank, **options):
    return fit_calibration(retriever, bank, bank.split("validation"), **options)


@pytest.fixture(scope="module")
def retriever():
    return fit_one(Bm25Config(), make_bank())


@pytest.fixture(scope="module")
def calibration(retriever):
    return fit_on_validation(retriever, make_bank())


def best(calibration, retriever, queries):
    hits = retriever.search(queries, DEPTH)
    return calibration.chances(retriever, queries, hits)[:, 0]


def test_what_is_served_is_likelier_than_what_is_not(calibration, retriever):
    served = best(calibration, retriever, [q.query for q in make_bank().split("test")])
    foreign = [one.query for one in find_foreign_requests(retriever.tools)[::50]]
    others = best(calibration, retriever, foreign)
    assert (served >= calibration.threshold).mean() > 0.9
    assert (others < calibration.threshold).mean() > 0.9


def test_probabilities_fall_as_the_scores_do(calibration, retriever):
    queries = ["open the door", "sell a lamp and close the window", "zebra"]
    hits = retriever.search(queries, 20)
    chances = calibration.chances(retriever, queries, hits)
    assert ((chances >= 0) & (chances <= 1)).all()
    assert (np.diff(chances, axis=1) <= 0).all()
    assert not chances[2].any()


@pytest.mark.parametrize("n", [49, 80, 149, 320])
def test_of_further_requests_two_in_a_hundred_are_marked_at_most(n):
    draw = np.random.default_rng(n)
    # Of numbers that are evenly spread from 0 to 1 a threshold refuses the share that it is.
    refused = np.mean([choose_threshold(draw.random(n)) for _ in range(20_000)])
    assert 0.008 < refused < 0.0205


def test_what_is_said_of_an_example_hangs_on_others_alone():
    draw = np.random.default_rng(0)
    columns, fits = draw.normal(size=(60, 3)), draw.random(60) < 0.5
    examples = np.arange(60) % 20
    before = fit._cross_fit(columns, fits, examples)
    turned = np.where(examples % 5 == 2, ~fits, fits)
    after = fit._cross_fit(columns, turned, examples)
    same = examples % 5 == 2
    np.testing.assert_array_equal(before[same], after[same])
    assert not np.isclose(before[~same], after[~same]).any()


def test_where_other_domains_lie_is_told_by_what_was_packed(retriever, monkeypatch):
    asked = []

    def find(one, *_):
        asked.append(one)
        return np.zeros(0)

    monkeypatch.setattr(fit, "_find_direction", find)
    other = create_retriever(Bm25Config())
    fit_on_validation(retriever, make_bank(), packed_from=other)
    fit_on_validation(retriever, make_bank())
    assert asked == [other, retriever]


@pytest.mark.parametrize("odds", [-1.0, 0.5, 3.0, 40.0])
def test_a_hit_that_is_likelier_than_not_is_never_marked(retriever, monkeypatch, odds):
    # Requests that a retriever knows by heart all have a first hit that is all but sure.
    monkeypatch.setattr(fit, "_cross_fit", lambda rows, *_: np.full(len(rows), odds))
    calibration = fit_on_validation(retriever, make_bank())
    reached = calibration.best_chance(np.array(odds))
    assert calibration.threshold == min(reached, 0.5)


def test_of_few_requests_the_threshold_is_the_lowest_or_there_is_none(retriever):
    assert choose_threshold(np.array([0.6, 0.4, 0.9])) == 0.4
    assert fit_on_validation(retriever, make_bank(10)) is None


def test_what_serves_in_a_tools_place_is_left_out_with_it():
    tools = (
        Tool(name="a.sum", kind="method", summary="Add up."),
        Tool(name="b.sum", kind="method", summary="Add up."),
        Tool(name="amax", summary="Greatest.", twins=("max",)),
        Tool(name="max", summary="Greatest.", twins=("amax",)),
        Tool(name="min", summary="Least."),
    )
    queries = (
        Query(id="1", query="total", tools=("a.sum",)),
        Query(id="2", query="top", tools=("max", "min")),
    )
    bank = Bank(tools, queries)
    assert [own.tolist() for own in find_own(bank, queries)] == [[0, 1], [2, 3, 4]]


def test_a_family_is_left_out_with_a_tool_unless_it_is_much_of_the_bank():
    tools = (
        *(Tool(name=f"all.{n}") for n in range(6)),
        *(Tool(name=name) for name in ("mail.send", "mail.read", "alone")),
        Tool(name="files.copy", tags=("disk",)),
        Tool(name="drives.eject", tags=("disk",)),
    )
    used = [("mail.read",), ("alone",), ("files.copy", "all.0")]
    queries = tuple(
        Query(id=str(n), query="please", tools=names) for n, names in enumerate(used)
    )
    found = find_families(Bank(tools, queries), queries)
    assert [one.tolist() for one in found] == [[6, 7], [8], [0, 9, 10]]


def test_hits_that_are_left_out_move_the_others_up():
    hits = (np.array([[3, 1, 2]]), np.array([[0.9, 0.5, 0.1]], np.float32))
    indices, scores = remove_hits(hits, [np.array([3])])
    assert indices.tolist() == [[1, 2, -1]]
    assert scores[0, :2].tolist() == hits[1][0, 1:].tolist()
    assert scores[0, 2] == -np.inf


def test_requests_of_the_same_domain_are_not_foreign():
    domains = {one.domain for one in find_foreign_requests(())}
    assert {"numpy", "mcp"} <= domains
    one = next(one for one in find_foreign_requests(()) if one.domain == "numpy")
    assert "numpy" not in {other.domain for other in find_foreign_requests([one.tool])}


def test_tools_left_out_do_not_show_in_what_a_fusion_is_judged_by(retriever):
    other = fit_one(Bm25Config(name="other", requests=True), make_bank())
    fusion = create_retriever(FusionConfig(first_stage="bm25", beside=("other",)))
    fusion.fit(make_bank(), FitContext(fitted={"bm25": retriever, "other": other}))
    queries = [query.query for query in make_bank().queries]
    own = find_own(make_bank(), make_bank().queries)
    alone = [
        read_signals(one, queries, one.search(queries, 2 * DEPTH), own)
        for one in (retriever, other)
    ]
    together = read_signals(fusion, queries, fusion.search(queries, 2 * DEPTH), own)
    np.testing.assert_allclose(together, np.concatenate(alone, axis=1))


def test_requests_that_no_tool_fits_lower_the_chances_of_others_like_them(retriever):
    bank = make_bank()
    texts = [f"please paint the {thing} it is time" for thing in THINGS.split()]
    plain, taught = (
        fit_on_validation(retriever, bank, missing=some) for some in ([], texts[::2])
    )
    before, after = (best(one, retriever, texts[1::2]) for one in (plain, taught))
    assert after.mean() < before.mean()
    served = best(taught, retriever, [q.query for q in bank.split("test")])
    assert (served >= taught.threshold).mean() > 0.9
