"""What a run folder's journal has of calls like those to come."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.requests.write.writers import WRITERS

if TYPE_CHECKING:
    from toolbank.llm.chat import ChatRequest
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineKind
    from toolbank.llm.journal import Journal, StepUsage

# The attempts on whose prompts the length of a token is measured.
_ATTEMPTS = 20
# The 90th percentile of the standard normal distribution.
_Z90 = 1.2815515655446004


@dataclass(frozen=True)
class History:
    """What a run folder's journal has of calls like those to come.

    `usage` are the replies of the same model and settings by step; `is_of_prompts` says that
    they answer this recipe's prompts, so that none is asked for again. `answered` is how many
    of the requests to come have a reply, where all of them were looked up. `characters_per_token`,
    by step, has those whose replies gave their tokens.
    """

    usage: Mapping[str, StepUsage] = field(default_factory=dict)
    is_of_prompts: bool = False
    answered: int | None = None
    characters_per_token: Mapping[str, float] = field(default_factory=dict)

    @property
    def latency(self) -> float | None:
        """Mean seconds of a call, by a lognormal through p50 and p90; None if not measured."""
        rows = [row for row in self.usage.values() if row.latency and row.replies]
        if not rows:
            return None
        seconds = sum(row.replies * _mean(row.latency) for row in rows)
        return seconds / sum(row.replies for row in rows)

    def held(self, step: str) -> int:
        """Replies of a step that are not asked for again."""
        if self.answered is not None:
            return self.answered
        row = self.usage.get(step)
        return row.replies if row and self.is_of_prompts else 0


def read_history(
    path: Path,
    config: EngineConfig,
    seed: int,
    requests: Sequence[ChatRequest],
    *,
    are_all: bool = False,
) -> History:
    """Read what the journal at `path` holds of this model's replies; nothing if there is none.

    `requests` are some that would be made first: where none has a reply, prompts have changed; or
    all of them.

    Raises:
        ToolbankError: the journal is damaged.
    """
    from toolbank.llm.journal import Journal

    if not path.is_file():
        return History()
    kind: EngineKind[Any] = WRITERS.find(config.engine, f"{config.section}.engine")
    with Journal(path, read_only=True) as journal:
        rows = journal.usage()
        likely = max(rows, key=lambda row: row.replies, default=None)
        # Where a kind doesn't know it, that of most replies is taken.
        identity = kind.identity(config, seed) or (likely.identity if likely else "")
        keys = (request.key(identity) for request in requests)
        known = (journal.get(key) is not None for key in keys)
        answered = sum(known) if are_all else int(any(known))
        return History(
            usage={row.step: row for row in rows if row.identity == identity},
            is_of_prompts=answered > 0,
            answered=answered if are_all else None,
            characters_per_token=_calibrate(
                journal,
                identity,
                {one.attempt for one in requests[:_ATTEMPTS]} or range(_ATTEMPTS),
            ),
        )


def _calibrate(
    journal: Journal, identity: str, attempts: Iterable[int]
) -> dict[str, float]:
    """Characters of a prompt per token of it, by step, over some attempts of the journal."""
    characters: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for attempt in attempts:
        for entry in journal.entries(attempt):
            if entry.identity == identity and entry.reply.prompt_tokens:
                texts = [message["content"] for message in entry.messages]
                characters[entry.step] += sum(map(len, texts))
                tokens[entry.step] += entry.reply.prompt_tokens
    return {step: characters[step] / tokens[step] for step in tokens}


def _mean(latency: Mapping[str, float]) -> float:
    p50, p90 = latency["p50"], latency["p90"]
    if not 0 < p50 <= p90:
        return p50
    sigma = math.log(p90 / p50) / _Z90
    return p50 * math.exp(sigma**2 / 2)
