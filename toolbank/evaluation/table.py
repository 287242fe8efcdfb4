"""The short table of an evaluation: one line a retriever, for all sets."""

from __future__ import annotations

from collections.abc import Sequence

from toolbank.evaluation.cells import FEW, percent, with_intervals
from toolbank.evaluation.config import TEST_PARTS, VERIFIED, main_k
from toolbank.evaluation.figures import Figure, SetLabels
from toolbank.evaluation.interval import FEWEST
from toolbank.evaluation.layout import LONGEST_SET, WIDTH, Columns, lay_out
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line, wrap

_NAMED = 5
_LONGEST_NAME = 80


def format_table(figures: Sequence[Figure]) -> str:
    """Recall with its interval, and COMP, at 5 (or the smallest k), of the sets in percent.

    Where the bank has twins, recall with them counted stands beside it. A sentence above says what
    they are. Sets without a query are named below.
    """
    sizes = {one.set: one.n for one in figures if one.set not in TEST_PARTS}
    shown = [name for name, n in sizes.items() if n]
    blocks = [format_scores(figures, shown)] if shown else []
    blocks += [
        f"{one_line(name, LONGEST_SET)}: no requests (n = 0), so that no figure can be given."
        for name, n in sizes.items()
        if not n
    ]
    return "\n\n".join(blocks)


def format_scores(figures: Sequence[Figure], sets: Sequence[str]) -> str:
    """The table of `format_table` on these sets, which have queries."""
    k = main_k(figure.k for figure in figures)
    found = {(one.set, one.retriever, one.metric, one.k): one for one in figures}
    retrievers = list(dict.fromkeys(figure.retriever for figure in figures))
    groups = []
    sizes = [found[name, retrievers[0], "recall", k].n for name in sets]
    has_twins = (sets[0], retrievers[0], "recall_or_twin", k) in found
    plain = {"recall_or_twin": "or twin"} if has_twins else {}
    plain["comp"] = f"COMP@{k}"
    for name, n in zip(sets, sizes, strict=True):
        header, cells = with_intervals(
            f"R@{k}", [found[name, retriever, "recall", k] for retriever in retrievers]
        )
        others = (
            [percent(found[name, retriever, metric, k]) for retriever in retrievers]
            for metric in plain
        )
        groups.append(
            Columns(
                (header, *plain.values()),
                tuple(zip(cells, *others, strict=True)),
                f"{name} (n = {n:,})",
            )
        )
    sentence = (
        "How much each retriever finds for requests that it has not seen, in percent. "
        f"R@{k}: of a request's tools, those among the first {k} found. "
        f"COMP@{k}: of the requests, those with all of their tools there."
    )
    if has_twins:
        sentence += (
            " or twin: those among them, or of which a twin is, a tool that no request can tell "
            "from it."
        )
    given = [
        one_line(name, LONGEST_SET) for name in sets if name not in ("test", VERIFIED)
    ]
    # Without a training the test has no parts.
    if given and "test" in sets and any(one.set in TEST_PARTS for one in figures):
        sentence += (
            f" Look at {' and '.join(given)} first, labelled apart from the bank (evaluate.on): "
            "the requests of test were made as those of training were."
        )
    if VERIFIED in sets:
        sentence += f" {VERIFIED}: the requests of test by their verified labels."
    few = [FEW] if min(sizes) < FEWEST else []
    table = lay_out(retrievers, groups)
    return "\n".join([wrap(sentence, WIDTH), "", table, *few])


def format_notes(labels: Sequence[SetLabels]) -> str:
    """What could not count, by what `describe_labels` says of each set: a line a finding."""
    lines = []
    for described in labels:
        name = one_line(described.set, LONGEST_SET)
        unknown = described.unknown
        if unknown:
            names = [one_line(tool, _LONGEST_NAME) for tool in unknown]
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            lines.append(
                f"{name}: {count(len(names), 'label names', 'labels name')} no tool of this bank "
                f"({count(sum(unknown.values()), 'use')}, counted as not found): {', '.join(names[:_NAMED])}{more}"
            )
        if described.refusals:
            lines.append(
                f"{name}: {count(described.refusals, 'line needs', 'lines need')} no tool and "
                f"{'is' if described.refusals == 1 else 'are'} left out"
            )
    return "\n".join(lines)
