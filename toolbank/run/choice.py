"""Which retriever a search takes where none is named, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolbank.evaluation.config import main_k
from toolbank.evaluation.figures import Figure, read_figures
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.run.folder import RunFolder
from toolbank.system.numbers import count


@dataclass(frozen=True)
class Choice:
    """A retriever by its label, and what speaks for it, for people."""

    label: str
    why: str


def choose_retriever(folder: RunFolder, fitted: Sequence[RetrieverConfig]) -> Choice:
    """The best of those that are fitted, of which there is at least one.

    That is the one with the best Recall@5 on the validation queries, the first of equals; before
    the evaluation, or without such queries, the first with vectors of tools that is no baseline,
    or the first.

    Raises:
        InputError: validation.json is damaged.
    """
    if ranked := _rank(folder, [config.label for config in fitted]):
        best, *others = ranked
        requests = count(best.n, "validation request")
        why = f"the highest R@{best.k} on the {requests}, {_percent(best)}"
        if others and others[0].value == best.value:
            why += f" as {others[0].retriever} has, which comes after it"
        elif others:
            why += f" (next: {others[0].retriever}, {_percent(others[0])})"
        return Choice(best.retriever, why)
    dense = (config for config in fitted if config.has_vectors and not config.baseline)
    if (first := next(dense, None)) is not None:
        lacks = "no validation requests to choose by"
        return Choice(first.label, f"{lacks}; the first that learns vectors of tools")
    return Choice(fitted[0].label, "no validation requests to choose by; the first")


def _rank(folder: RunFolder, labels: Sequence[str]) -> list[Figure]:
    """The figures that decide, the best first; none where there are none."""
    figures = read_figures(folder.validation) if folder.validation.is_file() else []
    column = "recall", main_k(figure.k for figure in figures)
    found = [
        figure
        for figure in figures
        if (figure.metric, figure.k) == column
        and figure.value is not None
        and figure.retriever in labels
    ]
    return sorted(found, key=lambda figure: -(figure.value or 0.0))


def _percent(figure: Figure) -> str:
    return f"{100 * (figure.value or 0.0):.1f}"
