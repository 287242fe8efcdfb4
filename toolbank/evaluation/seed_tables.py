"""Tables of figures over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolbank.evaluation import main_k
from toolbank.evaluation.figure_table import FigureTable, format_p
from toolbank.evaluation.figures import FEWEST
from toolbank.evaluation.over_seeds import PairedTest, SeedFigure
from toolbank.evaluation.paired import RESAMPLES
from toolbank.evaluation.tables import FEW
from toolbank.system.numbers import count


def make_tables(
    figures: Sequence[SeedFigure],
    tests: Sequence[PairedTest],
    seeds: Sequence[int],
    train: Mapping[str, int],
) -> list[FigureTable]:
    """Make a table of figures and one of tests for each set.

    `train` is the mean number of train requests of each setting. If it differs by over a tenth,
    there is a learning curve for each set, too.
    """
    has_curve = min(train.values()) < 0.9 * max(train.values())
    tables = []
    for name in dict.fromkeys(figure.set for figure in figures):
        of_set = [figure for figure in figures if figure.set == name]
        tables.append(_tabulate_figures(name, of_set, seeds))
        if has_curve:
            tables.append(_tabulate_curve(name, of_set, train))
        if compared := [test for test in tests if test.set == name]:
            tables.append(_tabulate_tests(name, compared))
    return tables


def _describe_n(rows: Sequence[SeedFigure | PairedTest]) -> str:
    low, high = min(row.n for row in rows), max(row.n for row in rows)
    return f"n = {low:,}" if low == high else f"n = {low:,} to {high:,}"


def _describe_draws(seeds: int) -> str:
    return (
        "requests and seeds" if seeds > 1 else "requests only, since there is one seed"
    )


def _format(mean: float, sd: float | None) -> str:
    return f"{100 * mean:.1f}" + ("" if sd is None else f" ± {100 * sd:.1f}")


def _format_interval(low: float | None, high: float | None, sign: str) -> str:
    if low is None or high is None:
        return ""
    return f"{100 * low:{sign}.1f} to {100 * high:{sign}.1f}"


def _tabulate_figures(
    name: str, figures: Sequence[SeedFigure], seeds: Sequence[int]
) -> FigureTable:
    k = main_k(figure.k for figure in figures)
    columns = {
        ("recall", k): f"R@{k}",
        ("ndcg", k): f"nDCG@{k}",
        ("comp", k): f"COMP@{k}",
        ("mrr", None): "MRR",
    }
    found = {(f.setting, f.retriever, f.metric, f.k): f for f in figures}
    rows = []
    for setting, retriever in dict.fromkeys((f.setting, f.retriever) for f in figures):
        cells = [found[setting, retriever, *column] for column in columns]
        main = cells[0]
        shown = [_format(cell.mean, cell.sd) for cell in cells]
        interval = _format_interval(main.low, main.high, "")
        rows.append((setting, retriever, shown[0], interval, *shown[1:]))
    first, *others = columns.values()
    listed = ", ".join(map(str, seeds))
    spread = "Mean ± standard deviation over" if len(seeds) > 1 else "Of"
    note = (
        f"{name}: in percent, {_describe_n(figures)} requests. {spread} "
        f"{count(len(seeds), 'seed')} ({listed}). 95 %: interval of {first} over "
        f"{_describe_draws(len(seeds))}, by a bootstrap."
    )
    few = f" {FEW}" if min(figure.n for figure in figures) < FEWEST else ""
    headers = ("setting", "retriever", first, "95 %", *others)
    return _drop_setting(
        FigureTable(f"{name}-figures", note + few, headers, tuple(rows), 2)
    )


def _tabulate_curve(
    name: str, figures: Sequence[SeedFigure], train: Mapping[str, int]
) -> FigureTable:
    k = main_k(figure.k for figure in figures)
    of_recall = [f for f in figures if (f.metric, f.k) == ("recall", k)]
    points: dict[str, dict[int, list[SeedFigure]]] = {}
    for figure in of_recall:
        own = points.setdefault(figure.retriever, {})
        own.setdefault(train[figure.setting], []).append(figure)
    sizes = sorted(set(train.values()))
    rows = [
        (
            retriever,
            *(
                " / ".join(_format(f.mean, f.sd) for f in own.get(size, ()))
                for size in sizes
            ),
        )
        for retriever, own in points.items()
    ]
    note = (
        f"{name}: learning curve, R@{k} in percent by the number of train requests (mean over "
        "seeds)."
    )
    if any(len(same) > 1 for own in points.values() for same in own.values()):
        settings = ", ".join(train)
        note += f" Settings with equally many are in this order: {settings}."
    headers = ("retriever", *(f"{size:,}" for size in sizes))
    return FigureTable(f"{name}-curve", note, headers, tuple(rows), 1)


def _tabulate_tests(name: str, tests: Sequence[PairedTest]) -> FigureTable:
    rows = []
    for test in tests:
        is_same = test.setting == test.against_setting
        against = test.against if is_same else test.against_setting
        rows.append(
            (
                test.setting,
                test.retriever,
                against,
                f"{100 * test.difference:+.1f}",
                _format_interval(test.low, test.high, "+"),
                format_p(test.p),
                format_p(test.p_holm),
            )
        )
    note = (
        f"{name}: R@{tests[0].k} of a retriever minus that of another under the same setting, or "
        f"of its own under another setting, in points; {_describe_n(tests)} requests, paired. "
        f"Interval (95 %) and two-sided p over {_describe_draws(tests[0].seeds)}, by a bootstrap "
        f"of {RESAMPLES:,}. Holm: p corrected for {count(tests[0].tests, 'test')} (the same "
        "differences count once); they differ if it is at most 0.05."
    )
    headers = ("setting", "retriever", "against", "points", "95 %", "p", "Holm")
    return _drop_setting(FigureTable(f"{name}-tests", note, headers, tuple(rows), 3))


def _drop_setting(table: FigureTable) -> FigureTable:
    """Drop the column of settings if there is one without a name."""
    if any(row[0] for row in table.rows):
        return table
    rows = tuple(row[1:] for row in table.rows)
    return FigureTable(table.key, table.note, table.headers[1:], rows, table.labels - 1)
