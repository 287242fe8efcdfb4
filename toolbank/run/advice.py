"""What of a bank keeps its retrievers or figures from being worth much, and what to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolbank.bank.split import assign_splits
from toolbank.evaluation import EvaluateConfig, main_k
from toolbank.evaluation.figures import FEWEST
from toolbank.llm.engines import has_copied_wording
from toolbank.system.numbers import count

if TYPE_CHECKING:
    import polars as pl

    from toolbank.bank.bank import Bank
    from toolbank.evaluation.figures import Figure
    from toolbank.retrievers.kind import RetrieverConfig
    from toolbank.run.recipe import Recipe

_FEW_TRAIN = 100
_FEW_STEPS = 100


def advise_on_size(tools: int, test: int, config: EvaluateConfig) -> Iterator[str]:
    """Yield why figures on the bank's own test split say little, and what to do.

    `test` is the number of its test requests. Few are no harm if the recipe names labelled files
    (evaluate.on).
    """
    k = main_k(config.ks)
    if k is not None and tools <= k:
        yield (
            f"With {count(tools, 'tool')} in all, R@{k} is 100 for any ranking of them: add tools, "
            "or compare R@1."
        )
    if test < FEWEST and not config.on:
        few = "There are no test requests, so there will be no figures"
        if test:
            requests = count(test, "test request is", "test requests are")
            few = f"{requests} too few to tell retrievers apart"
        yield (
            f"{few}: use more requests, a larger split.test, or a labelled file of your own "
            "(evaluate.on)."
        )


def advise_before(recipe: Recipe, tools: int, most: int) -> Iterator[str]:
    """Yield what `advise_on_size` will say if `most` queries are accepted for these tools."""
    splits = assign_splits(most, recipe.split, recipe.seed)
    for line in advise_on_size(tools, splits.count("test"), recipe.evaluate):
        yield f"Forecast for {count(most, 'accepted request')}: {line}"


def advise(
    tools: pl.DataFrame,
    splits: Counter[str | None],
    info: Mapping[str, Any],
    config: EvaluateConfig,
) -> Iterator[str]:
    """Yield what the user should repair in a bank; nothing if all is well.

    `tools` are the bank's, `splits` counts its queries, and `info` is its bank.json.
    """
    texts = zip(tools["summary"], tools["description"], strict=True)
    bare = sum(not (summary or description) for summary, description in texts)
    if bare and 2 * bare >= tools.height:
        yield (
            f"{bare:,} of {count(tools.height, 'tool')} {'has' if bare == 1 else 'have'} no "
            "description, by which a tool is found until requests use it. Describe each in a "
            "sentence."
        )
    yield from advise_on_size(tools.height, splits["test"], config)
    lost = {
        reason.removeprefix("query: "): found["count"]
        for reason, found in info.get("left_out", {}).items()
        if reason.startswith("query: ")
    }
    skipped, kept = sum(lost.values()), splits.total()
    if skipped and skipped >= kept:
        most = max(lost, key=lambda reason: lost[reason])
        yield (
            f"{skipped:,} of the {skipped + kept:,} requests of the dataset were skipped, most of "
            f"them for one reason: {most} ({lost[most]:,}). Repair the dataset."
        )
    if has_copied_wording(info):
        yield (
            "The requests copy the wording of the reference, as people's do not: on the bank's own "
            "test split, lexical retrievers look better than they are. Trust a labelled file of "
            "real requests (evaluate.on) more."
        )


def warn_of_setbacks(
    validation: Sequence[Figure],
    retrievers: Sequence[RetrieverConfig],
    bank: Bank,
    seed: int,
) -> list[str]:
    """Warn of methods that learn from requests and find less than one that does not.

    Compares Recall on the `validation` queries with that of BM25 and of descriptions, whichever
    is better. Each sentence after the first gives a likely cause, from facts of the bank.

    Raises:
        InputError: the configuration of an encoder cannot be read.
    """
    values = {figure.retriever: figure for figure in rank_by_recall(validation)}
    evaluated = [config for config in retrievers if config.label in values]
    plain = [c.label for c in evaluated if c.baseline in ("words", "descriptions")]
    if not plain:
        return []
    best = next(figure for label, figure in values.items() if label in plain)
    behind = [
        config
        for config in evaluated
        if _learns(config, retrievers)
        and (values[config.label].value or 0.0) < (best.value or 0.0)
    ]
    if not behind:
        return []
    found = [f"{c.label} ({percent(values[c.label])})" for c in behind]
    lines = [
        f"Warning: on the {count(best.n, 'validation request')}, {' and '.join(found)} "
        f"{'finds' if len(behind) == 1 else 'find'} less than {best.retriever} "
        f"({percent(best)}), which learns from no request (R@{best.k})."
    ]
    highs = [values[config.label].high for config in behind]
    if all(high is None or high >= (best.value or 0.0) for high in highs):
        lines.append("So few requests can differ by this much by chance.")
    causes = [*_find_causes(bank, best.n), *_find_short_trainings(behind, bank, seed)]
    lines += [f"Likely cause: {cause}" for cause in causes]
    if not causes:
        lines.append(
            "Likely cause: train requests whose tools are not those they need."
        )
    return lines


def _learns(config: RetrieverConfig, among: Sequence[RetrieverConfig]) -> bool:
    """Whether it, or what it builds on, learns from requests."""
    parts = [one for one in among if one.label in config.needs]
    own = config.needs_queries or bool(config.trainings)
    return own or any(_learns(one, among) for one in parts)


def rank_by_recall(figures: Sequence[Figure]) -> list[Figure]:
    """Return the main recall figure of each retriever, the best first."""
    k = main_k(figure.k for figure in figures)
    found = [
        figure
        for figure in figures
        if (figure.metric, figure.k) == ("recall", k) and figure.value is not None
    ]
    return sorted(found, key=lambda figure: -(figure.value or 0.0))


def percent(figure: Figure) -> str:
    """Write a figure in percent."""
    return f"{100 * (figure.value or 0.0):.1f}"


def _find_causes(bank: Bank, n_validation: int) -> Iterator[str]:
    """What of the train requests keeps methods from learning much."""
    train = bank.train_queries
    uses = Counter(name for query in train for name in _tools_of(bank, query.tools))
    once = sum(number == 1 for number in uses.values())
    if 2 * once >= len(uses) > 0:
        yield (
            f"{once:,} of the {count(len(uses), 'tool')} that train requests use have only one "
            "such request. Add requests for them, or `asks`."
        )
    without = len(bank.tools) - len(uses)
    if 5 * without >= len(bank.tools):
        yield (
            f"{without:,} of {count(len(bank.tools), 'tool')} have no train request. Add requests "
            "for them, or remove tools that nobody needs."
        )
    validation = bank.split("validation")
    new = sum(not uses.keys() >= _tools_of(bank, query.tools) for query in validation)
    if 5 * new >= n_validation:
        yield (
            f"{new:,} of {count(n_validation, 'validation request')} need a tool that no train "
            "request uses."
        )
    texts = {" ".join(re.findall(r"\w+", query.query.lower())) for query in train}
    if 10 * len(texts) <= 9 * len(train):
        yield (
            f"{len(train) - len(texts):,} of {count(len(train), 'train request')} repeat the words "
            "of another. Replace them with requests in other words."
        )
    if len(train) < _FEW_TRAIN:
        yield f"there are only {count(len(train), 'train request')}. Add more."
    if has_copied_wording(bank.info):
        yield "requests in the reference's own words favour retrievers by words."


def _tools_of(bank: Bank, names: Sequence[str]) -> set[int]:
    return {bank.index[name] for name in names if name in bank.index}


def _find_short_trainings(
    retrievers: Sequence[RetrieverConfig], bank: Bank, seed: int
) -> Iterator[str]:
    for config in retrievers:
        for training in config.plan_trainings(bank, seed):
            if training.steps is not None and training.steps < _FEW_STEPS:
                yield (
                    f"{config.label}: its training has only {count(training.steps, 'step')}. Raise "
                    "`training.epochs`, or add train requests."
                )
