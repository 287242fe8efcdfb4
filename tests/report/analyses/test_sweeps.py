import pytest

from toolbank.evaluation.figures import Figure
from toolbank.report.analyses import draw_sweep, find_sweeps


def refiner(candidates, **settings):
    return {
        "type": "refiner",
        "name": f"refiner-{candidates}",
        "candidates": candidates,
        "training": {"epochs": 2, "patience": None},
        **settings,
    }


def figure(retriever, value, name="test", k=5, n=9):
    return Figure(retriever, name, "recall", k, value, None, None, n)


def test_retrievers_that_differ_in_one_number_are_a_sweep():
    epochs = [
        refiner(8, name=f"for-{n}", training={"epochs": n, "patience": None})
        for n in (1, 4)
    ]
    others = [{"type": "bm25", "name": "", "requests": flag} for flag in (True, False)]
    tried = [refiner(n) for n in (32, 8, 128)]
    sweeps = find_sweeps([*others, *tried, *epochs])
    assert [(sweep.type, sweep.key) for sweep in sweeps] == [
        ("refiner", "candidates"),
        ("refiner", "training.epochs"),
    ]
    assert list(sweeps[0].labels.items()) == [
        (8, "refiner-8"),
        (32, "refiner-32"),
        (128, "refiner-128"),
    ]
    assert list(sweeps[1].labels.values()) == ["for-1", "refiner-8", "for-4"]


def test_two_values_or_a_second_difference_make_none():
    assert find_sweeps([refiner(8), refiner(16)]) == []
    assert find_sweeps([refiner(8), refiner(16), refiner(32, vectors="other")]) == []
    assert find_sweeps([]) == []


def test_a_sweep_is_drawn_by_its_recall_on_each_set():
    [sweep] = find_sweeps([refiner(n) for n in (64, 16, 32)])
    figures = [
        *(figure(f"refiner-{n}", 0.01 * n) for n in (16, 32, 64)),
        figure("refiner-16", 0.9, k=3),
        figure("refiner-64", 0.5, name="natural"),
        figure("refiner-16", None, name="empty", n=0),
    ]
    chart = draw_sweep(sweep, figures, 5)
    assert [text for text, _ in chart.groups] == ["16", "32", "64"]
    told = {line.label: [dot.mean.value for dot in line.dots] for line in chart.lines}
    assert told == {"test": pytest.approx([0.16, 0.32, 0.64]), "natural": [0.5]}
    assert draw_sweep(sweep, [], None) is None
