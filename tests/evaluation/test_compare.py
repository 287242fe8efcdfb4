from dataclasses import replace

import numpy as np
import pytest

from toolbank.evaluation import EvaluateConfig
from toolbank.evaluation.evaluate import Measured, compare, list_metrics, make_figures
from toolbank.evaluation.figures import difference_intervals
from toolbank.evaluation.sets import EvaluationSet
from toolbank.evaluation.tables import format_details
from toolbank.retrievers.llm_settings import DecompositionConfig
from toolbank.retrievers.settings import (
    Bm25Config,
    DescriptionsConfig,
    MlcConfig,
    NearestConfig,
    ProtipConfig,
    RefinerConfig,
)

CONFIG = EvaluateConfig(ks=(3, 5), resamples=200)
N = 60
ALL = EvaluationSet(
    name="test",
    tools=("a", "b"),
    ids=tuple(map(str, range(N))),
    queries=tuple(map(str, range(N))),
    gold=(frozenset({0}),) * N,
    labels=(("a",),) * N,
    parts={"test-unseen-sets": np.arange(10), "test-unseen-tools": np.arange(0)},
)
RETRIEVERS = (
    DescriptionsConfig(),
    NearestConfig(name="votes"),
    NearestConfig(),
    MlcConfig(),
    RefinerConfig(first_stage="mlc"),
)


def made(name, mean, seed):
    random = np.random.default_rng(seed)
    shape = N, len(list_metrics(CONFIG, twins=False))
    nothing = np.zeros((N, 0), np.int64), np.zeros((N, 0), np.float32)
    return Measured(name, ALL, *nothing, (random.random(shape) < mean).astype(float))


@pytest.fixture(scope="module")
def measured():
    means = {"descriptions": 0.2, "votes": 0.4, "nearest": 0.7, "mlc": 0.8}
    methods = [made(name, mean, i) for i, (name, mean) in enumerate(means.items())]
    return [*methods, made("refiner", 0.9, 9)]


@pytest.fixture(scope="module")
def records(measured):
    return compare(measured, RETRIEVERS, CONFIG, seed=4)


def against(records, retriever):
    return {(r.baseline, r.against) for r in records if r.retriever == retriever}


def test_each_method_meets_its_first_stage_neighbours_and_descriptions(records):
    baselines = {("nearest neighbours", "nearest"), ("descriptions", "descriptions")}
    assert against(records, "refiner") == {("first stage", "mlc"), *baselines}
    assert against(records, "mlc") == baselines
    assert against(records, "nearest") == {("descriptions", "descriptions")}
    assert against(records, "descriptions") == {("nearest neighbours", "nearest")}


def test_the_interval_is_of_the_differences_query_by_query(records, measured):
    refiner, mlc = measured[-1], measured[-2]
    column = list_metrics(CONFIG, twins=False).index(("recall", 5))
    differences = refiner.values - mlc.values
    interval = difference_intervals(differences, CONFIG.resamples, 4)[column]
    key = ("refiner", "mlc", "recall", 5, "test")
    [record] = (
        r for r in records if key == (r.retriever, r.against, r.metric, r.k, r.set)
    )
    assert record.difference == pytest.approx(differences[:, column].mean())
    assert (record.low, record.high) == pytest.approx(interval)


def test_a_method_does_not_differ_from_its_twin(measured):
    twin = Measured("twin", *list(vars(measured[0]).values())[1:])
    methods = DescriptionsConfig(), Bm25Config(name="twin")
    records = compare([measured[0], twin], methods, CONFIG, 0)
    assert {r.difference for r in records} == {0}
    assert all(r.low < 0 < r.high and not r.is_sure for r in records)


def test_a_method_that_plans_meets_the_best_that_splits_requests(measured):
    first = {"first_stage": "bm25"}
    splits = (DecompositionConfig(name=name, **first) for name in ("votes", "mlc"))
    methods = (*splits, ProtipConfig(name="refiner"))
    records = compare(measured, methods, CONFIG, seed=0)
    assert {r.retriever for r in records} == {"refiner"}
    assert against(records, "refiner") == {("decomposition", "mlc")}
    assert "decomposition = mlc, the best" in told(measured, records)


def test_only_parts_and_methods_that_are_there_are_compared(records, measured):
    assert {(r.set, r.n) for r in records} == {("test", N), ("test-unseen-sets", 10)}
    assert compare(measured[-1:], RETRIEVERS, CONFIG, seed=0) == []


def told(measured, differences):
    figures = [one for each in measured for one in make_figures(each, CONFIG, 0)]
    return " ".join(format_details(figures, differences).split())


def test_each_set_has_its_differences_under_a_sentence_that_names_it(measured, records):
    text = told(measured, records)
    assert "test: R@5 of a retriever minus that of another" in text
    assert "nearest neighbours = nearest, the best that only looks up" in text
    assert text.count("points (95 % interval)") == 3
    others = [replace(record, set="mine") for record in records]
    assert "minus that of another" not in told(measured, others)
    assert "minus that of another" not in told(measured, [])
