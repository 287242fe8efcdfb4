"""Figures and tests over several runs, and their tables in each format."""

import csv
import io
import re
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrievers.small_methods import fit_one
from tests.world import make_bank
from toolbank.evaluation import EvaluateConfig
from toolbank.evaluation.evaluate import (
    Measured,
    measure,
    read_measured,
    write_hits,
)
from toolbank.evaluation.figure_table import FigureTable, write_csv
from toolbank.evaluation.over_seeds import (
    MeasuredRun,
    PairedTest,
    SeedFigure,
    compare_pairs,
    list_sets,
    summarise_seeds,
)
from toolbank.evaluation.paired import compare_columns, holm
from toolbank.evaluation.seed_tables import make_tables
from toolbank.evaluation.sets import held_out_set, make_set
from toolbank.retrievers.settings import Bm25Config
from toolbank.system.errors import InputError

CONFIG = EvaluateConfig(ks=(5,), resamples=200)
METRICS = 4


def make_run(setting, seed, values, texts=None):
    """A run with recall values of retrievers by name, on requests with these texts."""
    n = len(next(iter(values.values())))
    texts = texts or [f"request {i}" for i in range(n)]
    bank = make_bank({"t": "Does."}, [(text, ["t"], "test") for text in texts])
    evaluated = make_set("test", bank, bank.queries)
    empty = np.zeros((n, 0))
    measured = tuple(
        Measured(
            name,
            evaluated,
            empty.astype(np.int64),
            empty.astype(np.float32),
            np.repeat(np.array(column, float)[:, None], METRICS, axis=1),
        )
        for name, column in values.items()
    )
    return MeasuredRun(setting, seed, 100, measured)


RANDOM = np.random.default_rng(5)
A, B, C = (RANDOM.random((2, 30)) for _ in range(3))


def test_any_two_retrievers_and_any_two_settings_are_compared_on_the_same_requests():
    runs = [
        make_run(setting, seed, {"a": A[seed] + shift, "b": B[seed] + shift / 4})
        for setting, shift in (("x=1", 0), ("x=2", 0.4))
        for seed in (0, 1)
    ]
    tests, notes = compare_pairs(runs, CONFIG, seed=0)
    assert not notes
    found = {(t.setting, t.retriever, t.against_setting, t.against): t for t in tests}
    assert list(found) == [
        ("x=1", "b", "x=1", "a"),
        ("x=2", "b", "x=2", "a"),
        ("x=2", "a", "x=1", "a"),
        ("x=2", "b", "x=1", "b"),
    ]
    assert found["x=2", "a", "x=1", "a"].difference == pytest.approx(0.4)
    [alone] = compare_columns((B - A)[:, :, None])
    for key, value in vars(alone).items():
        assert vars(found["x=1", "b", "x=1", "a"])[key] == pytest.approx(value)
    assert [t.p_holm for t in tests] == holm([t.p for t in tests])
    assert {(t.n, t.seeds) for t in tests} == {(30, 2)}


def test_a_retriever_that_a_setting_does_not_change_is_tested_once():
    runs = [
        make_run(f"x={n}", seed, {"a": A[seed], "b": B[seed], "c": column[seed]})
        for n, column in ((1, C), (2, C + 0.1))
        for seed in (0, 1)
    ]
    tests, _ = compare_pairs(runs, CONFIG, seed=0)
    # b with a; c with a and b under each setting; c under one setting with the other.
    assert {t.tests for t in tests} == {6} and len(tests) == 9
    found = {(t.setting, t.retriever, t.against_setting, t.against): t for t in tests}
    assert [found["x=2", one, "x=1", one].p_holm for one in "ab"] == [1, 1]
    counted = [
        ("x=1", "b", "x=1", "a"),
        *((x, "c", x, one) for x in ("x=1", "x=2") for one in "ab"),
        ("x=2", "c", "x=1", "c"),
    ]
    assert [found[one].p_holm for one in counted] == holm(
        [found[one].p for one in counted]
    )
    again = found["x=2", "b", "x=2", "a"]
    assert again.p_holm == found[counted[0]].p_holm


def test_requests_are_paired_by_their_text_whatever_split_a_seed_draws():
    texts = [[f"r{i}" for i in range(20)], [f"r{i}" for i in range(10, 30)][::-1]]
    runs = [
        make_run("", seed, {"a": A[seed, :20], "b": B[seed, :20]}, texts[seed])
        for seed in (0, 1)
    ]
    [test], _ = compare_pairs(runs, CONFIG, seed=0)
    assert test.n == 30
    assert test.difference == pytest.approx((B - A)[:, :20].mean())
    [figure] = [f for f in summarise_seeds(runs[:1], CONFIG, 0) if f.metric == "mrr"][
        :1
    ]
    assert (figure.mean, figure.sd, figure.n) == (
        pytest.approx(A[0, :20].mean()),
        None,
        20,
    )


def test_settings_without_a_request_in_common_are_left_out_and_counted():
    runs = [
        make_run(f"x={n}", 0, {"a": A[0], "b": B[0]}, [f"{n} {i}" for i in range(30)])
        for n in (1, 2)
    ]
    tests, [note] = compare_pairs(runs, CONFIG, seed=0)
    assert [t.setting == t.against_setting for t in tests] == [True, True]
    assert "2 of 4 pairs" in note and "evaluate.on" in note


def test_a_set_that_is_empty_in_a_run_is_not_summed_up():
    full = make_run("", 0, {"a": A[0]})
    bank = make_bank({"t": "Does."})
    nothing = replace(
        full.measured[0], evaluated=make_set("test", bank, []), values=A[:0]
    )
    assert list_sets([full]) == (["test"], [])
    names, notes = list_sets([full, replace(full, measured=(nothing,))])
    assert not names
    assert "test: skipped" in notes[0] and "evaluate.on" in notes[1]


@pytest.mark.parametrize("value", [0, 1])
def test_the_interval_of_a_share_of_none_or_all_is_one_of_shares(value):
    run = make_run("", 0, {"a": np.full(20, value)})
    for figure in summarise_seeds([run], CONFIG, 0):
        assert 0 <= figure.low <= figure.mean == value <= figure.high <= 1
        assert figure.high - figure.low == pytest.approx(0.161, abs=0.001)


def test_hits_that_are_read_again_have_the_metrics_of_the_search(tmp_path):
    names = ("mean", "sort", "plot", "sum", "join", "count")
    uses = [
        (f"{names[i % 6]} my {i} values", [f"lab.{names[i % 6]}", "lab.gone"], "test")
        for i in range(9)
    ]
    bank = make_bank({f"lab.{name}": f"To {name} values." for name in names}, uses)
    sets = [held_out_set(bank), make_set("mine", bank, bank.queries[:2])]
    retriever = fit_one(Bm25Config(), bank)
    measured = [measure(retriever, one, CONFIG) for one in sets]
    path = tmp_path / "run" / "hits" / "bm25.jsonl"
    write_hits(path, measured)
    for again, one in zip(read_measured(path, sets, CONFIG), measured, strict=True):
        np.testing.assert_array_equal(again.values, one.values)
    with pytest.raises(InputError, match="--from evaluate"):
        read_measured(path, [make_set("mine", bank, bank.queries)], CONFIG)


def make_figure(setting="s", retriever="r", k=5, metric="recall", **more):
    given = {"mean": 0.5, "sd": 0.1, "low": 0.4, "high": 0.6, "n": 30, "seeds": 3}
    return SeedFigure(setting, retriever, "test", metric, k, **{**given, **more})


def make_test(retriever, against, **more):
    given = {"difference": -0.1, "low": -0.2, "high": 0.1, "p": 0.0001, "p_holm": 0.2}
    given |= {"tests": 2, "n": 30, "seeds": 3}
    ends = ("test", "recall", 5, "s", retriever, "s", against)
    return PairedTest(*ends, **{**given, **more})


HOSTILE = r'=cmd|"x" & 50%_{a}\b ~^$#<i>`*[z]'


def all_metrics(**more):
    kinds = (("recall", 5), ("ndcg", 5), ("comp", 5), ("mrr", None))
    return [make_figure(metric=metric, k=k, **more) for metric, k in kinds]


def unescape(text):
    """What a cell of LaTeX shows."""
    signs = {"backslash": "\\", "asciitilde": "~", "asciicircum": "^", "bar": "|"}
    signs |= {"less": "<", "greater": ">", "quotedbl": '"'}
    text = text.replace(r"$\pm$", "±")
    named = r"\\text(\w+)\{\}"
    return re.sub(
        rf"{named}|\\([&%$#_{{}}])", lambda m: signs[m[1]] if m[1] else m[2], text
    )


def read_latex(text):
    """The cells of the one table in a text."""
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)[1]
    body = text.split(r"\toprule")[1].split(r"\bottomrule")[0].replace(r"\midrule", "")
    rows = [
        [unescape(cell.strip()) for cell in re.split(r"(?<!\\)&", line.strip()[:-2])]
        for line in body.strip().splitlines()
        if line.strip()
    ]
    assert all(len(row) == len(columns) for row in rows)
    return rows


def test_each_format_shows_names_as_they_are_and_runs_none_of_them():
    figures = [
        *all_metrics(setting=HOSTILE, retriever="@r"),
        *all_metrics(setting="x=2", retriever="-r"),
    ]
    tests = [make_test(HOSTILE, "+b")]
    tables = make_tables(figures, tests, [0, 1, 2], {HOSTILE: 10, "x=2": 20})
    assert [table.key for table in tables] == [
        "test-figures",
        "test-curve",
        "test-tests",
    ]
    for table in tables:
        shown = [list(row) for row in (table.headers, *table.rows)]
        assert read_latex(table.as_latex()) == shown
        opened = table.as_latex().replace(r"\{", "").replace(r"\}", "")
        assert opened.count("{") == opened.count("}")
        lines = table.as_markdown().splitlines()[2:]
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {
            len(table.headers) + 1
        }
        assert not re.search(r"(?<!\\)[<>`]", "".join(lines))
    for rows in (figures, tests):
        found = list(
            csv.DictReader(io.StringIO(write_csv([asdict(row) for row in rows])))
        )
        for cells in found:
            for cell in cells.values():
                assert not re.match(r"[=+@]|-\D", cell)
        assert f"'{HOSTILE}" in found[0].values()


@given(st.lists(st.text(min_size=1), min_size=1, max_size=3))
def test_any_name_keeps_its_place_in_a_table_of_latex(names):
    rows = tuple((name, "1.0") for name in names)
    cells = read_latex(FigureTable("k", "n", ("name", "R@5"), rows, 1).as_latex())
    assert [row[1] for row in cells] == ["R@5", *["1.0"] * len(names)]


def test_notes_say_of_how_many_requests_and_seeds_figures_are_and_what_is_drawn():
    one, _ = make_tables(
        all_metrics(sd=None, seeds=1, n=9, low=None, high=None),
        [make_test("a", "b", p=None, p_holm=None, low=None, high=None, seeds=1)],
        [7],
        {"s": 10},
    )
    assert "n = 9 requests" in one.note and "1 seed (7)" in one.note
    assert "requests only" in one.note and "below 10" in one.note
    assert one.rows[0][2:4] == ("50.0", "")
    three, tests = make_tables(
        all_metrics(), [make_test("a", "b"), make_test("a", "c")], [0, 1, 2], {"s": 10}
    )
    assert "3 seeds (0, 1, 2)" in three.note and "requests and seeds" in three.note
    assert three.rows[0][2:4] == ("50.0 ± 10.0", "40.0 to 60.0")
    assert "2 tests" in tests.note
    assert tests.rows[0][3:] == ("-10.0", "-20.0 to +10.0", "<0.001", "0.200")
    assert "and 1 more" in tests.as_text(1)
