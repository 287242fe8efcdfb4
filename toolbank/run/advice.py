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


def advise_on_size(tools: int, test: int, recipe: EvaluateConfig) -> list[str]:
    """A sentence for each reason for which figures on the bank's own test split say nothing.

    `test` are the requests of that split. Where the recipe names labelled files of one's own
    (evaluate.on), those are what counts, and few requests in the split are no harm.
    """
    return [line for line in (_on_ranks(tools, recipe), _on_test(test, recipe)) if line]


def advise_before(recipe: Recipe, tools: int, most: int) -> list[str]:
    """What `advise_on_size` will say of a bank of so many tools, where all goes well.

    At most so many queries are written for it; how many are, is not known yet.
    """
    splits = assign_splits(most, recipe.split, recipe.seed)
    lines = [_on_ranks(tools, recipe.evaluate)]
    if line := _on_test(splits.count("test"), recipe.evaluate):
        forecast = f"Forecast for {count(most, 'accepted request')}"
        lines.append(f"{forecast}: {line[0].lower()}{line[1:]}")
    return [line for line in lines if line]


def advise(
    tools: pl.DataFrame,
    splits: Counter[str | None],
    info: Mapping[str, Any],
    recipe: EvaluateConfig,
) -> list[str]:
    """A line for each thing that the user should mend; none where all is well.

    Of a bank's `tools`, its queries counted by split, and `info`, its bank.json.
    """
    lines = [
        _on_tools(tools),
        *advise_on_size(tools.height, splits["test"], recipe),
        _on_queries(splits.total(), info),
        _on_wording(info),
    ]
    return [line for line in lines if line]


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
    k = main_k(figure.k for figure in validation)
    values = {
        figure.retriever: figure
        for figure in validation
        if (figure.metric, figure.k) == ("recall", k) and figure.value is not None
    }
    evaluated = [config for config in retrievers if config.label in values]
    plain = [c.label for c in evaluated if c.baseline in ("words", "descriptions")]
    if not plain:
        return []
    best = values[max(plain, key=lambda label: values[label].value or 0.0)]
    behind = [
        config
        for config in evaluated
        if _learns(config, retrievers)
        and (values[config.label].value or 0.0) < (best.value or 0.0)
    ]
    if not behind:
        return []
    found = [f"{c.label} ({_percent(values[c.label])})" for c in behind]
    lines = [
        f"Warning: on the {count(best.n, 'validation request')}, {' and '.join(found)} "
        f"{'finds' if len(behind) == 1 else 'find'} less than {best.retriever} "
        f"({_percent(best)}), which learns from no request (R@{k})."
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


def _percent(figure: Figure) -> str:
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


def _on_ranks(tools: int, recipe: EvaluateConfig) -> str:
    k = main_k(recipe.ks)
    if k is None or tools > k:
        return ""
    return (
        f"With {count(tools, 'tool')} in all, R@{k} is 100 for whatever ranks them all: add tools, "
        "or go by R@1."
    )


def _on_test(test: int, recipe: EvaluateConfig) -> str:
    if test >= FEWEST or recipe.on:
        return ""
    few = (
        f"{count(test, 'request to test on is', 'requests to test on are')} too few to "
        "tell retrievers apart"
    )
    none = "There are no test requests, so there will be no figures"
    return (
        f"{few if test else none}: use more requests, a larger split.test, or a labelled file of "
        "your own (evaluate.on)."
    )


def _on_tools(tools: pl.DataFrame) -> str:
    texts = zip(tools["summary"], tools["description"], strict=True)
    bare = sum(not (summary or description) for summary, description in texts)
    if 2 * bare < tools.height or not bare:
        return ""
    return (
        f"{bare:,} of {count(tools.height, 'tool')} {'has' if bare == 1 else 'have'} no "
        "description, and a tool is found by it until requests use it. Describe each in a sentence."
    )


def _on_queries(kept: int, info: Mapping[str, Any]) -> str:
    lost = {
        reason.removeprefix("query: "): found["count"]
        for reason, found in info.get("left_out", {}).items()
        if reason.startswith("query: ")
    }
    left_out = sum(lost.values())
    if left_out < kept or not left_out:
        return ""
    most = max(lost, key=lambda reason: lost[reason])
    return (
        f"Left out of the {left_out + kept:,} requests of the dataset: {left_out:,}, most of them "
        f"for one reason: {most} ({lost[most]:,}). Mend it there."
    )


def _on_wording(info: Mapping[str, Any]) -> str:
    if not has_copied_wording(info):
        return ""
    return (
        "The requests are of the reference's own words, as people's are not: on the bank's own "
        "test split, retrievers by words look better than they are. Trust a labelled file of real "
        "requests (evaluate.on) more."
    )
