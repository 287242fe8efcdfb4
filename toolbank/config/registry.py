"""The kinds of an extension point: ours by name, and those that other packages bring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module, metadata
from typing import Generic, TypeVar

from toolbank.system.errors import InputError

K = TypeVar("K")


@dataclass(frozen=True, eq=False)
class Registry(Generic[K]):
    """All kinds of `what` (such as "engine"), each a description of the type `kind`.

    `own` says where each of ours lies, as "module:NAME"; a module is read when its kind is asked
    for. Another package brings one by an entry point of its name in the group `group`.
    """

    what: str
    group: str
    kind: type[K]
    own: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that `find` takes: ours in their order, then those of other packages."""
        others = metadata.entry_points(group=self.group).names
        return *self.own, *sorted(others - self.own.keys())

    def find(self, name: str, where: str) -> K:
        """The kind of this name; `where` is the key that names it, for messages.

        Raises:
            InputError: as `load` does.
        """
        try:
            return self.load(name)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error

    def load(self, name: str) -> K:
        """The kind of this name.

        Raises:
            InputError: there is none, several packages bring it, it can't be imported, or what
                is there is of another type.
        """
        if name in self.own:
            module, _, attribute = self.own[name].partition(":")
            found: K = getattr(import_module(module), attribute)
            return found
        _, entry = self._find_entry(name)
        try:
            foreign = entry.load()
        except (Exception, SystemExit) as error:
            raise self.refuse(
                name, f"can't be loaded from {entry.value} ({_describe(error)})"
            ) from error
        if not isinstance(foreign, self.kind):
            raise self.refuse(
                name,
                f"is no {self.kind.__name__}: {entry.value} is of type "
                f"{type(foreign).__name__!r}",
            )
        return foreign

    def refuse(self, name: str, why: str) -> InputError:
        """The error that a kind of another package can't be used, with the remedy."""
        package, _ = self._find_entry(name)
        return InputError(
            f"the {self.what} {name!r} of the package {package} {why}. Update {package}, or "
            "uninstall it."
        )

    def _find_entry(self, name: str) -> tuple[str, metadata.EntryPoint]:
        """The package that brings a kind, and its entry point."""
        entries = metadata.entry_points(group=self.group, name=name)
        packages = {
            entry.dist.name if entry.dist else entry.module: entry for entry in entries
        }
        if not packages:
            near = get_close_matches(name, self.names, n=1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise InputError(
                f"there is no {self.what} {name!r}.{meant} "
                f"There are: {', '.join(self.names)}."
            )
        if len(packages) > 1:
            raise InputError(
                f"the packages {' and '.join(sorted(packages))} both bring {self.what} "
                f"{name!r}. Uninstall all but one."
            )
        [found] = packages.items()
        return found


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
