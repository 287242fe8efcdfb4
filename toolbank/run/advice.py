"""What of a bank keeps its retrievers or figures from being worth much, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolbank.bank.split import assign_splits
from toolbank.evaluation.config import EvaluateConfig, main_k
from toolbank.evaluation.interval import FEWEST
from toolbank.generate.writers import has_copied_wording
from toolbank.system.numbers import count

if TYPE_CHECKING:
    import polars as pl

    from toolbank.recipe import Recipe


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
    none = "No request is left to test on, so that no figure can be given"
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
