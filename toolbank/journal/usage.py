"""What the calls of a journal came to."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter

from toolbank.journal.records import StepUsage

_PERCENTILES = (50, 90, 99)


def read_usage(connection: sqlite3.Connection) -> tuple[StepUsage, ...]:
    """One for each step and identity: steps and identities as they were asked first.

    Those that only have failed tries come last.
    """
    sums = {
        (step, identity): numbers
        for step, identity, *numbers in connection.execute(
            "SELECT stage, identity, count(*), sum(prompt_tokens), sum(completion_tokens), "
            "sum(estimated), sum(latency > 0), max(latency) FROM replies "
            "GROUP BY stage, identity"
        )
    }
    failed: dict[tuple[str, int], dict[str, int]] = {}
    charged: Counter[tuple[str, int, int]] = Counter()
    for step, identity, reason, tries, *tokens in connection.execute(
        "SELECT stage, identity, reason, count(*), sum(prompt_tokens), sum(completion_tokens), "
        "sum(estimated) FROM failures GROUP BY stage, identity, reason ORDER BY reason"
    ):
        failed.setdefault((step, identity), {})[reason] = tries
        charged.update({(step, identity, n): one for n, one in enumerate(tokens)})
    names = dict(connection.execute("SELECT id, identity FROM identities"))
    used = []
    places = _places(connection)
    found = {*sums, *failed}
    for step, identity in sorted(found, key=lambda one: (places[one[0]], one[1])):
        replies, *tokens, measured, longest = sums.get(
            (step, identity), (0, 0, 0, 0, 0, 0.0)
        )
        prompt, completion, estimated = (
            one + charged[step, identity, n] for n, one in enumerate(tokens)
        )
        latency = {
            f"p{percent}": _percentile(connection, step, identity, percent, measured)
            for percent in _PERCENTILES
            if measured
        }
        if measured:
            latency["max"] = longest
        used.append(
            StepUsage(
                step,
                names[identity],
                replies,
                prompt,
                completion,
                failed.get((step, identity), {}),
                latency,
                estimated,
            )
        )
    return tuple(used)


def _places(connection: sqlite3.Connection) -> dict[str, int]:
    """The place of each step among those that were asked."""
    asked = connection.execute(
        "SELECT stage FROM replies GROUP BY stage ORDER BY min(rowid)"
    )
    failed = connection.execute(
        "SELECT stage FROM failures GROUP BY stage ORDER BY min(rowid)"
    )
    names = dict.fromkeys(name for (name,) in [*asked, *failed])
    return {name: place for place, name in enumerate(names)}


def _percentile(
    connection: sqlite3.Connection, step: str, identity: int, percent: int, of: int
) -> float:
    """By nearest rank: the smallest latency that `percent` per cent do not exceed."""
    rank = math.ceil(of * percent / 100)
    (latency,) = connection.execute(
        "SELECT latency FROM replies WHERE stage = ? AND identity = ? AND latency > 0 "
        "ORDER BY latency LIMIT 1 OFFSET ?",
        (step, identity, rank - 1),
    ).fetchone()
    return float(latency)
