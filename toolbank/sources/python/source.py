"""Configuration of an installed package as a source."""

from typing import Literal

from pydantic import Field

from toolbank.sources.kind import SourceConfig
from toolbank.sources.python.kinds import Kind


class PythonSource(SourceConfig):
    """An installed Python package, read by introspection.

    Where neither `parents` nor `exclude` is given, those of crawlers/<package>.yaml count, and
    the kinds of its roles, if there is one: the same scope as a crawl of the package's pages.
    """

    type: Literal["python"] = "python"
    package: str = Field(min_length=1, description="import name, such as numpy")
    parents: tuple[str, ...] | None = Field(
        default=None, description="modules whose direct members count; unset: all"
    )
    exclude: tuple[str, ...] | None = Field(
        default=None, description="names to leave out, with all that is in them"
    )
    kinds: tuple[Kind, ...] | None = Field(
        default=None,
        min_length=1,
        description="what counts; unset: function, method and class",
    )
    methods: bool = Field(default=True, description="false leaves methods out")

    @property
    def label(self) -> str:
        """What messages call the source."""
        return f"python:{self.name or self.package}"

    @property
    def api_name(self) -> str:
        """The package."""
        return self.package

    @property
    def scope_name(self) -> str | None:
        """The package, where the recipe leaves the scope to crawlers/<package>.yaml."""
        is_open = self.parents is None and self.exclude is None
        return self.package if is_open else None
