"""Which retriever `search` uses by default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolbank.config.explain import read_checked
from toolbank.evaluation.figures import read_figures
from toolbank.llm.engines import has_copied_wording
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.run.advice import percent, rank_by_recall
from toolbank.run.folder import RunFolder
from toolbank.system.numbers import count


@dataclass(frozen=True)
class RetrieverChoice:
    """A retriever by its label, and why it was chosen."""

    label: str
    why: str


def choose_retriever(
    folder: RunFolder, fitted: Sequence[RetrieverConfig]
) -> RetrieverChoice:
    """Choose the default retriever of searches among the fitted ones.

    That is the one with the highest Recall@5 on the validation queries. Without such figures it is
    the first fusion that calls no language model, or else the first that learns tool vectors, the
    first that has some, or the first of all. If the queries copy the wording of the reference,
    lexical retrievers are chosen only if there are no others.

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
    return RetrieverChoice(
        choice.label,
        f"{choice.why}. Lexical retrievers ({passed}) are not considered, because the requests "
        "copy the wording of the reference, which favours them",
    )


def _is_lexical(config: RetrieverConfig, among: Sequence[RetrieverConfig]) -> bool:
    """Whether it or its first stage is lexical."""
    firsts = [one for one in among if one.label in config.needs[:1]]
    return config.lexical or any(_is_lexical(one, among) for one in firsts)


def _asks_model(config: RetrieverConfig, among: Sequence[RetrieverConfig]) -> bool:
    """Whether a search calls a language model, which may cost money."""
    parts = [one for one in among if one.label in config.needs]
    return config.asks is not None or any(_asks_model(one, among) for one in parts)


def _choose(folder: RunFolder, fitted: Sequence[RetrieverConfig]) -> RetrieverChoice:
    figures = read_figures(folder.validation) if folder.validation.is_file() else []
    labels = {config.label for config in fitted}
    if ranked := [one for one in rank_by_recall(figures) if one.retriever in labels]:
        best, *others = ranked
        requests = count(best.n, "validation request")
        why = f"the highest R@{best.k} on the {requests}, {percent(best)}"
        if others and others[0].value == best.value:
            why += f" as {others[0].retriever}, which is listed later"
        elif others:
            why += f" (next: {others[0].retriever}, {percent(others[0])})"
        return RetrieverChoice(best.retriever, why)
    dense = [one for one in fitted if one.has_vectors]
    choices = {
        "the first fusion": [
            one for one in fitted if one.combines and not _asks_model(one, fitted)
        ],
        "the first that learns tool vectors": [
            one for one in dense if one.needs_queries
        ],
        "the first with tool vectors": dense,
        "the first": fitted,
    }
    why, configs = next((why, found) for why, found in choices.items() if found)
    parts = f" ({', '.join(configs[0].needs)})" if configs[0].combines else ""
    reason = f"there are no validation requests to choose by, so it is {why}{parts}"
    return RetrieverChoice(configs[0].label, reason)
