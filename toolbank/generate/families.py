"""What is dealt as one card: a tool, or tools that are one and the same thing to who asks."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from toolbank.bank.records import Tool
from toolbank.bank.twins import group_siblings


class Families:
    """The tools of a bank, by position; `together` puts siblings into one family.

    `members` are the positions of each family, and `of` is the family of each position.
    """

    def __init__(self, tools: Sequence[Tool], *, together: bool) -> None:
        groups = group_siblings(tools) if together else [(tool,) for tool in tools]
        positions = {tool.name: n for n, tool in enumerate(tools)}
        self.members = [[positions[tool.name] for tool in group] for group in groups]
        self.of = [0] * len(tools)
        for family, members in enumerate(self.members):
            for position in members:
                self.of[position] = family
        self._owners = [tool.name.rpartition(".")[0] for tool in tools]

    def __len__(self) -> int:
        return len(self.members)

    @property
    def has_siblings(self) -> bool:
        """Whether a family has several members; else its number is its tool's position."""
        return len(self.members) < len(self.of)

    def choose(
        self, families: Sequence[int], random: Random, held: Sequence[int] = ()
    ) -> list[int]:
        """A member of each family: one on a class that a tool of the hand is on, if there is.

        `held` are the positions that the hand holds already.
        """
        hand = list(held)
        for family in families:
            owners = {self._owners[position] for position in hand}
            members = self.members[family]
            near = [n for n in members if self._owners[n] in owners]
            hand.append(random.choice(near or members))
        return hand[len(held) :]
