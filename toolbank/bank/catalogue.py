"""The catalogue of a run: the tools now, and those that attempts were dealt from before."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.bank.split import SplitConfig, draw_withheld


@dataclass(frozen=True)
class CatalogueVersion:
    """The tools of an earlier version, which deals the attempts before `until`."""

    tools: tuple[Tool, ...]
    until: int


@dataclass(frozen=True)
class Catalogue:
    """The tools of the newest version, and the versions before it, the first one first.

    An attempt keeps the version that it was begun under, so that its prompt stays what it was.
    """

    tools: tuple[Tool, ...]
    earlier: tuple[CatalogueVersion, ...] = ()

    @property
    def begins(self) -> int:
        """The first attempt that the newest version deals."""
        return self.earlier[-1].until if self.earlier else 0

    def followed_by(self, tools: tuple[Tool, ...], begun: int) -> Catalogue:
        """One version more, which deals the attempts from number `begun` on."""
        until = max(begun, self.begins)
        return Catalogue(tools, (*self.earlier, CatalogueVersion(self.tools, until)))

    def find_gone(self) -> frozenset[str]:
        """The names of tools that there were, and that no tool goes by any more."""
        known = Bank(self.tools).index
        names = (tool.name for version in self.earlier for tool in version.tools)
        return frozenset(name for name in names if name not in known)

    def draw_withheld(self, config: SplitConfig, seed: int) -> frozenset[str]:
        """The names of the tools whose use is left out of training."""
        *earlier, names = (
            [tool.name for tool in tools]
            for tools in (*(version.tools for version in self.earlier), self.tools)
        )
        return draw_withheld(names, config, seed, earlier)


def find_version(attempt: int, earlier: Sequence[CatalogueVersion]) -> int:
    """Which version deals an attempt: 0 is the first, and the newest that of `len(earlier)`."""
    return bisect_right([version.until for version in earlier], attempt)
