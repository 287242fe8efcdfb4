"""All analyses of a run, as plain data for the templates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolbank.evaluation.config import TEST_PARTS
from toolbank.evaluation.evaluate import Found
from toolbank.report.analyses.failures import ToolFailures, count_failures
from toolbank.report.analyses.kinds import compare_kinds
from toolbank.report.analyses.lengths import split_lengths
from toolbank.report.analyses.sweeps import Sweep, draw_sweep, find_sweeps
from toolbank.report.analyses.uses import follow_uses
from toolbank.report.content import Content
from toolbank.report.curves import Overlay, overlay
from toolbank.report.lines import LineChart
from toolbank.report.scores import title_of


@dataclass(frozen=True)
class Misses:
    """What is missed of one evaluation set of n queries.

    `lengths` are those of the method `best`, the one of the highest recall.
    """

    title: str
    n: int
    best: str
    failures: dict[str, ToolFailures]
    lengths: Overlay | None
    uses: LineChart | None
    kinds: LineChart | None


def describe_misses(content: Content) -> list[Misses]:
    """An entry for each evaluation set that has queries."""
    uses = dict.fromkeys(content.bank.tool_names, 0)
    train = content.bank.train_queries
    uses |= Counter(
        content.bank.tools[index].name
        for query in train
        for index in {
            content.bank.index[t] for t in query.tools if t in content.bank.index
        }
    )
    sets = dict.fromkeys(one.set for of_one in content.hits.values() for one in of_one)
    return [
        _describe_set(
            name,
            {
                method: [one for one in of_one if one.set == name]
                for method, of_one in content.hits.items()
            },
            uses if train else {},
            content,
        )
        for name in sets
    ]


def describe_sweeps(content: Content, k: int | None) -> list[tuple[Sweep, LineChart]]:
    """The settings that the recipe tries several numbers of, each with its chart."""
    figures = [one for one in content.figures if one.set not in TEST_PARTS]
    sweeps = find_sweeps(content.recipe.get("retrievers") or ())
    drawn = [(sweep, draw_sweep(sweep, figures, k)) for sweep in sweeps]
    return [(sweep, chart) for sweep, chart in drawn if chart]


def _describe_set(
    name: str,
    found: Mapping[str, Sequence[Found]],
    uses: Mapping[str, int],
    content: Content,
) -> Misses:
    best = max(found, key=lambda method: sum(one.recall for one in found[method]))
    whole, failed = split_lengths(found[best])
    failures = {
        method: count_failures(of_one, content.bank.index)
        for method, of_one in found.items()
    }
    return Misses(
        title=title_of(name),
        n=len(found[best]),
        best=best,
        failures={method: one for method, one in failures.items() if one},
        lengths=overlay([("all found", whole), ("one missed", failed)]),
        uses=follow_uses(found, uses, content.seed),
        kinds=compare_kinds(found, content.seed),
    )
