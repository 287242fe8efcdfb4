"""Which kind of asking is found worst."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from toolbank.evaluation.evaluate import Found
from toolbank.report.lines import LineChart, draw_lines, take_mean
from toolbank.requests.asks.config import KINDS

_OTHER = "others"


def kind_of(query_id: str) -> str:
    """The kind of asking that an id names, as ask-terse-17 does; "" where it names none."""
    first, _, rest = query_id.partition("-")
    kind = rest.partition("-")[0]
    return kind if first == "ask" and kind in KINDS else ""


def compare_kinds(found: Mapping[str, Sequence[Found]], seed: int) -> LineChart | None:
    """Recall by kind of asking, a line a method; None where no id names a kind.

    `found` has what each method found among its first k hits, for the same queries.
    """
    recalls: dict[str, defaultdict[str, list[float]]] = {}
    for method, of_one in found.items():
        by_kind = recalls[method] = defaultdict(list)
        for one in of_one:
            by_kind[kind_of(one.id)].append(one.recall)
    there = {kind for by_kind in recalls.values() for kind in by_kind}
    kinds = [kind for kind in (*KINDS, "") if kind in there]
    if kinds in ([], [""]):
        return None
    return draw_lines(
        [kind or _OTHER for kind in kinds],
        {
            method: [take_mean(by_kind[kind], seed) for kind in kinds]
            for method, by_kind in recalls.items()
        },
    )
