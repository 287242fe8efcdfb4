"""All other tables of an evaluation, each under a sentence that says what it shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolbank.evaluation.cells import FEW, percent, with_intervals
from toolbank.evaluation.compare import OPPONENTS
from toolbank.evaluation.config import TEST_PARTS, main_k
from toolbank.evaluation.figures import Difference, Figure, Opponent
from toolbank.evaluation.interval import FEWEST
from toolbank.evaluation.layout import LONGEST_SET, WIDTH, Columns, lay_out
from toolbank.system.terminal import one_line, wrap

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
