"""Which of a package's names and kinds count, by a source of a recipe or a file in crawlers/."""

from dataclasses import dataclass
from typing import Self

from toolbank.config.assets import has_asset
from toolbank.sources.python.kinds import CALLED, Kind, kinds_of_roles
from toolbank.sources.python.source import PythonSource
from toolbank.sources.site import covers, load_site


@dataclass(frozen=True)
class Scope:
    """What of a package is read.

    `parents` are the modules whose direct members count, none: all. A name in `exclude` is left
    out with all that is in it. `every_class` takes those, too, that are made without arguments.
    """

    parents: frozenset[str]
    exclude: tuple[str, ...]
    kinds: frozenset[Kind]
    every_class: bool = False

    @classmethod
    def of(cls, config: PythonSource) -> Self:
        """The scope that a source gives, or leaves to crawlers/<package>.yaml.

        Raises:
            InputError: that file is no YAML, or a key or a value of it is wrong.
        """
        name = config.scope_name
        if name is None or not has_asset("crawlers", f"{name}.yaml"):
            scope = cls(
                frozenset(config.parents or ()), config.exclude or (), frozenset(CALLED)
            )
        else:
            rules = load_site(name).objects
            kinds = kinds_of_roles(rules.roles) or CALLED
            scope = cls(frozenset(rules.parents), rules.exclude, kinds, True)
        kinds = frozenset(config.kinds or scope.kinds)
        if not config.methods:
            kinds -= {"method"}
        return cls(scope.parents, scope.exclude, kinds, scope.every_class)

    def leaves_out(self, name: str) -> bool:
        """Whether a name is outside: of no parent, or excluded."""
        near = (name, name.rpartition(".")[0])
        if self.parents and self.parents.isdisjoint(near):
            return True
        return covers(name, self.exclude)

    def looks_into(self, module: str) -> bool:
        """Whether a module can hold what counts."""
        return not self.parents or any(
            f"{parent}.".startswith(f"{module}.") for parent in self.parents
        )
