"""What becomes of each ask, and the list that they add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolbank.asks.config import AsksConfig
from toolbank.asks.replies import Answered, Lost
from toolbank.bank.records import Ask, Provenance, Tool
from toolbank.generate.near_duplicates import NearDuplicates


@dataclass
class AskBuilder:
    """Takes the replies for groups of siblings in any order, and folds them in theirs.

    The result depends on the replies alone, not on when each came in. Near-duplicates are judged
    at the fold, against all that was accepted before.
    """

    groups: Sequence[tuple[Tool, ...]]
    config: AsksConfig
    passed: int = 0
    lost: int = 0
    _answered: dict[int, Answered] = field(default_factory=dict)

    @property
    def ended(self) -> int:
        """Of how many groups the reply has come, or the call has failed."""
        return len(self._answered)

    def accept(self, answered: Answered) -> None:
        """Take what came for a group."""
        self._answered[answered.number] = answered
        lost = sum(isinstance(one, Lost) for one in answered.asks.values())
        self.lost += lost
        self.passed += len(answered.asks) - lost

    def progress(self) -> tuple[int, int]:
        """Of how many groups the reply has come, and how many asks are lost."""
        return self.ended, self.lost

    def fold(self, trace: Callable[[Answered], Provenance]) -> Folded:
        """What there is, in the order of groups; `trace` says where a reply came from."""
        folded = Folded(self.config)
        texts: list[str] = []
        seen = NearDuplicates(self.config.near_duplicate, texts.__getitem__)
        writers: list[str] = []
        for number, group in enumerate(self.groups):
            if number not in self._answered:
                continue
            answered = self._answered[number]
            kept: list[tuple[str, str]] = []
            for key, one in answered.asks.items():
                kind = self.config.keys[key]
                if isinstance(one, str) and (like := seen.find_like(one)) is not None:
                    detail = f"like one of {writers[like]}: {texts[like]}"
                    folded.lose(
                        group[0],
                        kind,
                        Lost("rejected", "near-duplicate", detail),
                        answered.key,
                    )
                elif isinstance(one, str):
                    texts.append(one)
                    writers.append(group[0].name)
                    seen.add(one)
                    kept.append((kind, one))
                else:
                    folded.lose(group[0], kind, one, answered.key)
            folded.keep(group, kept, trace(answered) if kept else None)
        return folded


@dataclass
class Folded:
    """The asks, tool by tool; what was lost; and how much of each kind there is.

    `ended` counts groups, `tools` those tools that have an ask; `by_kind` counts texts, by kind
    and how they ended. A text that siblings share counts once.
    """

    config: AsksConfig
    asks: list[Ask] = field(default_factory=list)
    not_accepted: list[dict[str, str]] = field(default_factory=list)
    reasons: dict[str, Counter[str]] = field(
        default_factory=lambda: {
            outcome: Counter() for outcome in ("declined", "rejected", "failed")
        }
    )
    by_kind: dict[str, Counter[str]] = field(default_factory=dict)
    ended: int = 0
    tools: int = 0
    accepted: int = 0

    def keep(
        self,
        group: Sequence[Tool],
        kept: Sequence[tuple[str, str]],
        provenance: Provenance | None,
    ) -> None:
        """Give each tool of a group the asks that passed, as kind and text."""
        self.ended += 1
        self.tools += len(group) if kept else 0
        self.accepted += len(kept)
        for kind, _ in kept:
            self.by_kind.setdefault(kind, Counter())["accepted"] += 1
        for tool in group:
            self.asks += [
                Ask(tool=tool.name, kind=kind, ask=text, provenance=provenance)
                for kind, text in kept
            ]

    def lose(self, tool: Tool, kind: str, lost: Lost, key: str) -> None:
        """Note an ask that didn't get in, and why."""
        self.reasons[lost.outcome][lost.reason or lost.outcome] += 1
        self.by_kind.setdefault(kind, Counter())[lost.outcome] += 1
        self.not_accepted.append(
            {
                "tool": tool.name,
                "kind": kind,
                "outcome": lost.outcome,
                "reason": lost.reason,
                "detail": lost.detail,
                "request": key,
            }
        )

    def counts(self) -> dict[str, Any]:
        """Accepted + declined + rejected + failed = `per_tool` for each group that ended."""
        return {
            "groups": self.ended,
            "tools": self.tools,
            "accepted": self.accepted,
            "declined": self.reasons["declined"].total(),
            "rejected": dict(sorted(self.reasons["rejected"].items())),
            "failed": dict(sorted(self.reasons["failed"].items())),
            "by_kind": {
                kind: dict(sorted(self.by_kind[kind].items()))
                for kind in dict.fromkeys(self.config.kinds)
                if kind in self.by_kind
            },
        }

    def describe_reasons(self, outcome: str) -> Iterator[str]:
        """Such as "not-json 3", the most common first."""
        found = self.reasons[outcome].items()
        for reason, number in sorted(found, key=lambda row: (-row[1], row[0])):
            yield f"{reason} {number:,}"
