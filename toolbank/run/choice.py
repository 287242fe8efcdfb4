"""Which retriever a search takes where none is named, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolbank.config.explain import read_checked
from toolbank.evaluation.config import main_k
from toolbank.evaluation.figures import Figure, read_figures
from toolbank.requests.write.writers import has_copied_wording
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

    That is the one with the best Recall@5 on the validation queries, the first of equals. Before
    the evaluation, or without such queries, it is the first fusion, as long as it asks no language
    model; or else the first that learns vectors of tools, the first that has some, or the first.
    Where the queries are of the reference's own words, which people's are not, one that finds by
    words alone is taken only if there is no other.

    Raises:
        InputError: validation.json or bank.json is damaged.
    """
    able = [config for config in fitted if not _is_lexical(config, fitted)]
    path = folder.bank / "bank.json"
    copied = path.is_file() and has_copied_wording(read_checked(path, dict[str, Any]))
    if not copied or not able or len(able) == len(fitted):
        return _choose(folder, fitted)
    choice = _choose(folder, able)
    passed = ", ".join(config.label for config in fitted if config not in able)
    return Choice(
        choice.label,
        f"{choice.why}. Those by words alone ({passed}) are left out of the choice, because the "
        "requests are of the reference's own words, which favours them",
    )


def _is_lexical(config: RetrieverConfig, among: Sequence[RetrieverConfig]) -> bool:
    """Whether it finds by words alone, or by what such a one finds."""
    firsts = [one for one in among if one.label in config.needs[:1]]
    return config.lexical or any(_is_lexical(one, among) for one in firsts)


def _asks_model(config: RetrieverConfig, among: Sequence[RetrieverConfig]) -> bool:
    """Whether a search asks a language model, which may cost money."""
    parts = [one for one in among if one.label in config.needs]
    return config.asks is not None or any(_asks_model(one, among) for one in parts)


def _choose(folder: RunFolder, fitted: Sequence[RetrieverConfig]) -> Choice:
    if ranked := _rank(folder, [config.label for config in fitted]):
        best, *others = ranked
        requests = count(best.n, "validation request")
        why = f"the highest R@{best.k} on the {requests}, {_percent(best)}"
        if others and others[0].value == best.value:
            why += f" as {others[0].retriever} has, which comes after it"
        elif others:
            why += f" (next: {others[0].retriever}, {_percent(others[0])})"
        return Choice(best.retriever, why)
    lacks = "no validation requests to choose by"
    for config in fitted:
        if config.combines and not _asks_model(config, fitted):
            parts = ", ".join(config.needs)
            return Choice(
                config.label,
                f"{lacks}; the fusion, which does not depend on one of {parts}",
            )
    dense = [config for config in fitted if config.has_vectors]
    for config in dense:
        if config.needs_queries:
            return Choice(
                config.label, f"{lacks}; the first that learns vectors of tools"
            )
    if dense:
        return Choice(dense[0].label, f"{lacks}; the first with vectors of tools")
    return Choice(fitted[0].label, f"{lacks}; the first")


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
