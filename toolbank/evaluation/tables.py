"""The tables of an evaluation as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from toolbank.evaluation import TEST_PARTS, VERIFIED, main_k
from toolbank.evaluation.evaluate import OPPONENTS
from toolbank.evaluation.figures import FEWEST, Difference, Figure, Opponent, SetLabels
from toolbank.system.numbers import count
from toolbank.system.terminal import align, one_line, wrap

FEW = f"No interval is given where n is below {FEWEST}."


def percent(figure: Figure | None) -> str:
    """Such as "14.3"; "" where there is no value."""
    return "" if figure is None or figure.value is None else f"{100 * figure.value:.1f}"


def with_intervals(
    name: str, figures: Iterable[Figure | Difference | None]
) -> tuple[str, list[str]]:
    """A header and its cells of equal width, such as "R@5 (95 % interval)", "14.3 (10.4 to 18.9)"."""
    parts = [_write(figure) for figure in figures]
    value = max(len(name), *(len(one) for one, _ in parts))
    interval = max(
        len(one) for one in ("(95 % interval)", *(ends for _, ends in parts))
    )
    header, *cells = (
        f"{one:>{value}} {ends:<{interval}}"
        for one, ends in ((name, "(95 % interval)"), *parts)
    )
    return header, cells


def _write(figure: Figure | Difference | None) -> tuple[str, str]:
    if figure is None:
        return "", ""
    sign = "+" if isinstance(figure, Difference) else ""
    value = figure.difference if isinstance(figure, Difference) else figure.value
    if value is None:
        return "", ""
    if figure.low is None or figure.high is None:
        return f"{100 * value:{sign}.1f}", ""
    ends = f"({100 * figure.low:{sign}.1f} to {100 * figure.high:{sign}.1f})"
    return f"{100 * value:{sign}.1f}", ends


WIDTH = 90
LONGEST_SET = 40
_LONGEST_LABEL = 30


@dataclass(frozen=True)
class Columns:
    """Columns that stay together: headers and one tuple of cells per row, with an optional title."""

    headers: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    title: str = ""

    def lines(self) -> list[str]:
        """Lay out the title, the headers and the rows, right-aligned."""
        rows = align([self.headers, *self.cells], right=range(len(self.headers)))
        return [one_line(self.title, max(20, *map(len, rows))), *rows]


def lay_out(
    labels: Sequence[str], groups: Iterable[Columns], what: str = "retriever"
) -> str:
    """Lay out labelled rows; groups of columns that do not fit a line start a new block.

    `what` is the header of the labels.
    """
    names = ["", what, *(one_line(label, _LONGEST_LABEL) for label in labels)]
    blocks: list[list[list[str]]] = [[names]]
    for group in groups:
        lines = group.lines()
        width = sum(2 + max(map(len, part)) for part in (*blocks[-1], lines))
        if width > WIDTH and len(blocks[-1]) > 1:
            blocks.append([names])
        blocks[-1].append(lines)
    return "\n\n".join(
        "\n".join(filter(str.strip, align(list(zip(*block, strict=True)), indent=2)))
        for block in blocks
    )


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


_PARTS = {
    "test-seen-sets": "seen-sets: a train request needs the same set of tools.",
    "test-unseen-sets": "unseen-sets: no train request needs the same set of tools.",
    "test-seen-tools": "seen-tools: train requests use each of the tools.",
    "test-unseen-tools": "unseen-tools: one of the tools is in no train request.",
}
_OPPONENTS: dict[Opponent, str] = {
    "first stage": "the one that it builds on",
    "nearest neighbours": "{}, the best that only looks up similar train requests",
    "descriptions": "{}, by descriptions alone",
    "decomposition": "{}, the best that searches for the parts of a request",
}


def format_details(figures: Sequence[Figure], differences: Sequence[Difference]) -> str:
    """Every metric of every set, recall on the parts of the test split, and differences."""
    sizes = {figure.set: figure.n for figure in figures}
    whole = [name for name in sizes if name not in TEST_PARTS and sizes[name]]
    blocks = [_format_metrics(name, figures) for name in whole]
    blocks += _format_parts(figures, sizes)
    blocks += [
        _format_differences(name, of_set)
        for name in whole
        if (of_set := [one for one in differences if one.set == name])
    ]
    return "\n\n".join(blocks)


def _format_metrics(name: str, figures: Sequence[Figure]) -> str:
    found = {(r.retriever, r.metric, r.k): r for r in figures if r.set == name}
    retrievers = list(dict.fromkeys(retriever for retriever, _, _ in found))
    ks = list(dict.fromkeys(k for _, metric, k in found if metric == "recall"))
    main = main_k(ks)
    columns = [
        *((f"R@{k}", "recall", k) for k in ks),
        (f"nDCG@{main}", "ndcg", main),
        (f"COMP@{main}", "comp", main),
        ("MRR", "mrr", None),
    ]
    groups = [
        Columns((header,), tuple((percent(found[r, metric, k]),) for r in retrievers))
        for header, metric, k in columns
    ]
    n = next(iter(found.values())).n
    sentence = (
        f"{one_line(name, LONGEST_SET)} (n = {n:,}), in percent. R@k and COMP@{main} as above; nDCG@{main} counts a right "
        "tool the more, the higher it stands; MRR is the mean of 1 / rank of the first right tool."
    )
    return _block(sentence, lay_out(retrievers, groups))


def _format_parts(figures: Sequence[Figure], sizes: dict[str, int]) -> Iterator[str]:
    """Recall on the parts of the test split; of one that is the whole, only that it is."""
    parts = [name for name in TEST_PARTS if sizes.get(name)]
    legends = []
    groups = []
    recall = [r for r in figures if r.metric == "recall"]
    k = main_k(r.k for r in recall)
    found = {(r.set, r.retriever): r for r in recall if r.k == k}
    retrievers = list(dict.fromkeys(r.retriever for r in recall))
    for name in parts:
        short = name.removeprefix("test-")
        if sizes[name] == sizes["test"]:
            legends.append(f"{_PARTS[name]} So it is with all of test.")
            continue
        legends.append(_PARTS[name])
        header, cells = with_intervals(
            f"R@{k}", [found[name, retriever] for retriever in retrievers]
        )
        title = f"{short} (n = {sizes[name]:,})"
        groups.append(Columns((header,), tuple((cell,) for cell in cells), title))
    if parts:
        few = [FEW] if any(sizes[name] < FEWEST for name in parts) else []
        sentence = f"Parts of test: R@{k} in percent. {' '.join([*legends, *few])}"
        yield _block(sentence, lay_out(retrievers, groups) if groups else "")


def _format_differences(name: str, differences: Sequence[Difference]) -> str:
    k = main_k(r.k for r in differences)
    usable = [r for r in differences if (r.metric, r.k) == ("recall", k)]
    found = {(r.retriever, r.baseline): r for r in usable}
    retrievers = list(dict.fromkeys(r.retriever for r in usable))
    legends = []
    groups = []
    for baseline in OPPONENTS:
        rows = [found.get((retriever, baseline)) for retriever in retrievers]
        against = dict.fromkeys(row.against for row in rows if row)
        if not against:
            continue
        header, cells = with_intervals("points", rows)
        title = f"- {baseline}"
        groups.append(Columns((header,), tuple((cell,) for cell in cells), title))
        legends.append(
            f"{baseline} = {_OPPONENTS[baseline].format(', '.join(against))}"
        )
    few = [FEW] if usable[0].n < FEWEST else []
    sentence = (
        f"{one_line(name, LONGEST_SET)}: R@{k} of the retriever minus that of another on the same requests. "
        f"{'; '.join(legends)}. Where the interval leaves out 0, they differ. {' '.join(few)}"
    )
    return _block(sentence, lay_out(retrievers, groups))


def _block(sentence: str, table: str) -> str:
    return "\n".join(filter(None, (wrap(sentence.strip(), WIDTH), table)))
