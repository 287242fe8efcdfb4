"""The tables of an evaluation as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolbank.evaluation import (
    CLASS_PARTS,
    SEEN_PARTS,
    TEST_PARTS,
    VERIFIED,
    main_k,
)
from toolbank.evaluation.evaluate import OPPONENTS
from toolbank.evaluation.figures import FEWEST, Difference, Figure, Opponent, SetLabels
from toolbank.system.numbers import count
from toolbank.system.terminal import align, one_line, wrap

FEW = f"No interval is given if n is below {FEWEST}."


def percent(figure: Figure | None) -> str:
    """Format a value such as "14.3"; "" without one."""
    return "" if figure is None or figure.value is None else f"{100 * figure.value:.1f}"


def with_intervals(
    name: str, figures: Iterable[Figure | Difference | None]
) -> tuple[str, list[str]]:
    """Return a header and cells of equal width: "R@5 (95 % interval)", "14.3 (10.4 to 18.9)"."""
    parts = [(name, "(95 % interval)"), *map(_write, figures)]
    value, interval = (max(map(len, column)) for column in zip(*parts, strict=True))
    header, *cells = (f"{one:>{value}} {ends:<{interval}}" for one, ends in parts)
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
    """Format recall with its interval, and COMP, at 5 (or the smallest k), of all sets in percent.

    If the bank has twins, a second recall counts them. Sets without a query are listed below.
    """
    sizes = {one.set: one.n for one in figures if one.set not in TEST_PARTS}
    shown = [name for name, n in sizes.items() if n]
    blocks = [_format_scores(figures, shown, sizes)] if shown else []
    blocks += [
        f"{one_line(name, LONGEST_SET)}: no requests (n = 0), so there are no figures."
        for name, n in sizes.items()
        if not n
    ]
    return "\n\n".join(blocks)


def _format_scores(
    figures: Sequence[Figure], sets: Sequence[str], sizes: Mapping[str, int]
) -> str:
    k = main_k(figure.k for figure in figures)
    found = {(one.set, one.retriever, one.metric, one.k): one for one in figures}
    retrievers = list(dict.fromkeys(figure.retriever for figure in figures))
    has_twins = (sets[0], retrievers[0], "recall_or_twin", k) in found
    others = {"recall_or_twin": "or twin"} if has_twins else {}
    others["comp"] = f"COMP@{k}"
    groups = []
    for name in sets:
        header, cells = with_intervals(
            f"R@{k}", [found[name, one, "recall", k] for one in retrievers]
        )
        columns = [
            [percent(found[name, one, metric, k]) for one in retrievers]
            for metric in others
        ]
        title = f"{name} (n = {sizes[name]:,})"
        rows = tuple(zip(cells, *columns, strict=True))
        groups.append(Columns((header, *others.values()), rows, title))
    sentences = [
        f"Retrieval on held-out requests, in percent. R@{k} (recall at {k}): share of the needed "
        f"tools that are in the top {k}. COMP@{k}: share of requests with all needed tools in the "
        f"top {k}."
    ]
    if has_twins:
        sentences.append(
            "or twin: recall that also counts a twin, a tool that no request can tell from it."
        )
    own = [
        one_line(name, LONGEST_SET) for name in sets if name not in ("test", VERIFIED)
    ]
    # Without a training the test has no parts.
    if own and "test" in sets and any(one.set in TEST_PARTS for one in figures):
        sentences.append(
            f"Look at {' and '.join(own)} first (evaluate.on), labelled apart from the bank. The "
            "requests of test were written like those of training."
        )
    if VERIFIED in sets:
        sentences.append(f"{VERIFIED}: the requests of test by their verified labels.")
    few = [FEW] if min(sizes[name] for name in sets) < FEWEST else []
    table = lay_out(retrievers, groups)
    return "\n".join([wrap(" ".join(sentences), WIDTH), "", table, *few])


def format_notes(labels: Sequence[SetLabels]) -> str:
    """Format what did not count in each set, one line per finding."""
    lines = []
    for described in labels:
        name = one_line(described.set, LONGEST_SET)
        unknown = described.unknown
        if unknown:
            names = [one_line(tool, _LONGEST_NAME) for tool in unknown]
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            lines.append(
                f"{name}: {count(len(names), 'label names', 'labels name')} no tool of this bank "
                f"({count(sum(unknown.values()), 'use')}, counted as not found): "
                f"{', '.join(names[:_NAMED])}{more}"
            )
        if described.refusals:
            lines.append(
                f"{name}: skipped {count(described.refusals, 'line')} that names no tool"
            )
    return "\n".join(lines)


_PARTS = {
    "test-seen-sets": "seen-sets: a train request needs the same set of tools.",
    "test-unseen-sets": "unseen-sets: no train request needs the same set of tools.",
    "test-seen-tools": "seen-tools: train requests use each of the tools.",
    "test-unseen-tools": "unseen-tools: no train request uses one of the tools.",
}
_AXES = {
    "fits": "The number of tools that fit a request by its labels: needed ones and alternatives.",
    "wording": "tool-words: in words of the tools' names and summaries. outcome: in none of them. "
    "paraphrase: between.",
    "difficulty": "easy: BM25 or the plain encoder finds every needed tool in its top 10 by "
    "descriptions alone. hard: none of them. medium: between.",
}
_OPPONENTS: dict[Opponent, str] = {
    "first stage": "the retriever that it builds on",
    "nearest neighbours": "{}, the best that only looks up similar train requests",
    "descriptions": "{}, by descriptions alone",
    "decomposition": "{}, the best that searches for the parts of a request",
}


def format_details(figures: Sequence[Figure], differences: Sequence[Difference]) -> str:
    """Format every metric of every set, recall on the parts and classes of test, and differences."""
    sizes = {figure.set: figure.n for figure in figures}
    whole = [name for name in sizes if name not in TEST_PARTS and sizes[name]]
    blocks = [_format_metrics(name, figures) for name in whole]
    blocks += _format_parts(figures, sizes)
    blocks += _format_classes(figures, sizes)
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
        f"{one_line(name, LONGEST_SET)} (n = {n:,}), in percent. R@k and COMP@{main} as above. "
        f"nDCG@{main} weighs a right tool by its rank. MRR: mean of 1 / rank of the first right "
        "tool."
    )
    return _block(sentence, lay_out(retrievers, groups))


def _format_parts(figures: Sequence[Figure], sizes: Mapping[str, int]) -> Iterator[str]:
    """Recall on the parts of the test split; a part that is the whole has only a sentence."""
    parts = [name for name in SEEN_PARTS if sizes.get(name)]
    if not parts:
        return
    recall = [r for r in figures if r.metric == "recall"]
    k = main_k(r.k for r in recall)
    found = {(r.set, r.retriever): r for r in recall if r.k == k}
    retrievers = list(dict.fromkeys(r.retriever for r in recall))
    sentences = [f"Parts of test: R@{k} in percent."]
    groups = []
    for name in parts:
        sentences.append(_PARTS[name])
        if sizes[name] == sizes["test"]:
            sentences.append("This is all of test.")
            continue
        title = f"{name.removeprefix('test-')} (n = {sizes[name]:,})"
        column = [found[name, retriever] for retriever in retrievers]
        groups.append(_single_column(f"R@{k}", column, title))
    if any(sizes[name] < FEWEST for name in parts):
        sentences.append(FEW)
    yield _block(" ".join(sentences), lay_out(retrievers, groups) if groups else "")


def _format_classes(
    figures: Sequence[Figure], sizes: Mapping[str, int]
) -> Iterator[str]:
    """Recall by the classes of each axis that has some."""
    recall = [r for r in figures if r.metric == "recall"]
    k = main_k(r.k for r in recall)
    found = {(r.set, r.retriever): r for r in recall if r.k == k}
    retrievers = list(dict.fromkeys(r.retriever for r in recall))
    of = VERIFIED if sizes.get(VERIFIED) else "test"
    for axis, names in CLASS_PARTS.items():
        groups = [
            _single_column(
                f"R@{k}",
                [found[part, retriever] for retriever in retrievers],
                f"{name} (n = {sizes[part]:,})",
            )
            for part, name in names.items()
            if sizes.get(part)
        ]
        few = any(0 < sizes.get(part, 0) < FEWEST for part in names)
        sentence = f"{of} by {axis}: R@{k} in percent. {_AXES[axis]}{few * f' {FEW}'}"
        if groups:
            yield _block(sentence, lay_out(retrievers, groups))


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
        if against:
            groups.append(_single_column("points", rows, f"- {baseline}"))
            opponent = _OPPONENTS[baseline].format(", ".join(against))
            legends.append(f"{baseline} = {opponent}")
    few = f" {FEW}" if usable[0].n < FEWEST else ""
    sentence = (
        f"{one_line(name, LONGEST_SET)}: R@{k} of a retriever minus that of another on the same "
        f"requests. {'; '.join(legends)}. They differ if the interval does not contain 0.{few}"
    )
    return _block(sentence, lay_out(retrievers, groups))


def _single_column(
    name: str, figures: Sequence[Figure | Difference | None], title: str
) -> Columns:
    header, cells = with_intervals(name, figures)
    return Columns((header,), tuple((cell,) for cell in cells), title)


def _block(sentence: str, table: str) -> str:
    return "\n".join(filter(None, (wrap(sentence, WIDTH), table)))
