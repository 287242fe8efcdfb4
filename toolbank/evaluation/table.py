"""The figures of an evaluation as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolbank.evaluation.compare import BASELINES
from toolbank.evaluation.config import TEST_PARTS, main_k
from toolbank.evaluation.figures import Difference, Figure, SetLabels

_NAMED = 5
_BEST_OF_SEVERAL = ("nearest neighbours", "decomposition")


def format_table(figures: Sequence[Figure]) -> str:
    """Figures as a block a set and a line a retriever, in percent.

    Recall at every k, with the 95 % interval at 5 (or the smallest k); nDCG and COMP there too.
    The parts of the test split stand side by side in a block of their own.
    """
    sizes = {figure.set: figure.n for figure in figures}
    blocks = []
    for name in sizes:
        if name not in TEST_PARTS:
            blocks.append(_format_set(name, _of_set(figures, name)))
        if name == "test":
            blocks += _format_parts(figures, sizes)
    return "\n\n".join(blocks)


def format_comparisons(differences: Sequence[Difference]) -> str:
    """Differences in recall on the test split, a line a retriever; empty where there are none."""
    k = main_k(r.k for r in differences)
    if k is None:
        return ""
    found = {
        (r.retriever, r.baseline): r
        for r in differences
        if (r.set, r.metric, r.k) == ("test", "recall", k)
    }
    if not found:
        return ""
    baselines = [one for one in BASELINES if any(one == kind for _, kind in found)]
    rows = [["retriever"]]
    for baseline in baselines:
        best = {r.against for (_, b), r in found.items() if b == baseline}
        named = f" ({', '.join(best)})" if baseline in _BEST_OF_SEVERAL else ""
        rows[0].append(f"minus {baseline}{named}")
    for retriever in dict.fromkeys(retriever for retriever, _ in found):
        rows.append([retriever])
        for baseline in baselines:
            difference = found.get((retriever, baseline))
            rows[-1].append(_format_difference(difference) if difference else "")
    return f"Recall@{k} on test: differences in points, paired 95 %\n{_align(rows)}"


def format_notes(labels: Sequence[SetLabels]) -> str:
    """What could not count, by what `describe_labels` says of each set: a line a finding."""
    lines = []
    for described in labels:
        name, unknown = described.set, described.unknown
        if unknown:
            names = list(unknown)
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            lines.append(
                f"{name}: {len(names)} labels name no tool of this bank and count as not "
                f"found ({sum(unknown.values())} uses): {', '.join(names[:_NAMED])}{more}"
            )
        if described.refusals:
            lines.append(
                f"{name}: {described.refusals} lines need no tool and are left out"
            )
    return "\n".join(lines)


def _of_set(figures: Iterable[Figure], name: str) -> list[Figure]:
    return [figure for figure in figures if figure.set == name]


def _format_set(name: str, figures: Sequence[Figure]) -> str:
    n = figures[0].n
    if n == 0:
        return f"{name}: no queries (n = 0)"
    values = {(r.retriever, r.metric, r.k): r for r in figures}
    ks = list(dict.fromkeys(r.k for r in figures if r.metric == "recall" and r.k))
    main = main_k(ks)
    header = ["retriever"]
    for k in ks:
        header += [f"R@{k}", "95 %"] if k == main else [f"R@{k}"]
    header += [f"nDCG@{main}", f"COMP@{main}", "MRR"]
    rows = [header]
    for retriever in dict.fromkeys(r.retriever for r in figures):
        row = [retriever]
        for k in ks:
            figure = values[retriever, "recall", k]
            row.append(_percent(figure.value))
            if k == main:
                row.append(_interval(figure))
        row += [_percent(values[retriever, m, main].value) for m in ("ndcg", "comp")]
        row.append(_percent(values[retriever, "mrr", None].value))
        rows.append(row)
    return f"{name} (n = {n:,}, percent)\n{_align(rows)}"


def _format_parts(figures: Sequence[Figure], sizes: dict[str, int]) -> list[str]:
    """Recall of the parts of the test split; of one that is the whole, only that it is."""
    parts = [name for name in TEST_PARTS if sizes.get(name)]
    whole = [name for name in parts if sizes[name] == sizes["test"]]
    blocks = [f"{', '.join(whole)}: all of test"] if whole else []
    parts = [name for name in parts if name not in whole]
    if not parts:
        return blocks
    recall = [r for r in figures if r.metric == "recall" and r.set in parts]
    k = main_k(r.k for r in recall)
    values = {(r.retriever, r.set): r for r in recall if r.k == k}
    rows = [["retriever"], ["n"]]
    for name in parts:
        rows[0] += [name.removeprefix("test-"), "95 %"]
        rows[1] += [f"{sizes[name]:,}", ""]
    for retriever in dict.fromkeys(retriever for retriever, _ in values):
        rows.append([retriever])
        for name in parts:
            figure = values[retriever, name]
            rows[-1] += [_percent(figure.value), _interval(figure)]
    return [f"Recall@{k} on parts of test (percent)\n{_align(rows)}", *blocks]


def _format_difference(found: Difference) -> str:
    ends = f"{100 * found.low:+.1f} to {100 * found.high:+.1f}"
    return f"{100 * found.difference:+.1f} ({ends})"


def _interval(figure: Figure) -> str:
    return f"{_percent(figure.low)} to {_percent(figure.high)}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _align(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  "
        + "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
