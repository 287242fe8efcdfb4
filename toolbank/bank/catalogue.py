"""The catalogue of a run: its tools now, and the versions that earlier attempts sampled from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.bank.split import SplitConfig, draw_withheld


@dataclass(frozen=True)
class CatalogueVersion:
    """The tools of an earlier version, from which the attempts before `until` are sampled."""

    tools: tuple[Tool, ...]
    until: int


@dataclass(frozen=True)
class Catalogue:
    """The tools of the newest version, and the versions before it in order.

    An attempt keeps the version with which it began, so its prompt does not change.
    """

    tools: tuple[Tool, ...]
    earlier: tuple[CatalogueVersion, ...] = ()

    @property
    def begins(self) -> int:
        """The first attempt that samples from the newest version."""
        return self.earlier[-1].until if self.earlier else 0

    def followed_by(self, tools: tuple[Tool, ...], begun: int) -> Catalogue:
        """Add a version, from which the attempts from number `begun` on are sampled."""
        until = max(begun, self.begins)
        return Catalogue(tools, (*self.earlier, CatalogueVersion(self.tools, until)))

    def find_gone(self) -> frozenset[str]:
        """Find the names of earlier tools that no tool or alias has any more."""
        known = Bank(self.tools).index
        names = (tool.name for version in self.earlier for tool in version.tools)
        return frozenset(name for name in names if name not in known)

    def draw_withheld(self, config: SplitConfig, seed: int) -> frozenset[str]:
        """Draw the names of the tools that are withheld from training."""
        *earlier, names = (
            [tool.name for tool in tools]
            for tools in (*(version.tools for version in self.earlier), self.tools)
        )
        return draw_withheld(names, config, seed, earlier)


def find_version(attempt: int, earlier: Sequence[CatalogueVersion]) -> int:
    """Find the version of an attempt: 0 is the first, `len(earlier)` the newest."""
    return bisect_right([version.until for version in earlier], attempt)
