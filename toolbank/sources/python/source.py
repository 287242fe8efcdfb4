"""Configuration of an installed package as a source."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from toolbank.sources.kind import SourceConfig
from toolbank.sources.python.kinds import Kind


class PythonSource(SourceConfig):
    """An installed Python package, read by introspection, or a folder of source, never run.

    Where neither `parents` nor `exclude` is given, those of crawlers/<package>.yaml count, and
    the kinds of its roles, if there is one: the same scope as a crawl of the package's pages.
    """

    type: Literal["python"] = "python"
    package: str | None = Field(
        default=None,
        min_length=1,
        description="import name of an installed package, such as numpy, which is imported",
    )
    folder: Path | None = Field(
        default=None,
        description="in its place, a folder of source: a package, or what has some in it or in "
        "src/; nothing of it is imported or run",
    )
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

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if (self.package is None) == (self.folder is None):
            raise ValueError(
                "give `package`, the import name of an installed package, or `folder`, a "
                "folder of source, and not both"
            )
        return self

    @property
    def label(self) -> str:
        """What messages call the source."""
        return f"python:{self.name or self.api_name}"

    @property
    def api_name(self) -> str:
        """The package, or the folder's name."""
        return self.package or (self.folder or Path()).resolve().name

    @property
    def scope_name(self) -> str | None:
        """The package, where the recipe leaves the scope to crawlers/<package>.yaml."""
        is_open = self.parents is None and self.exclude is None
        return self.package if is_open else None
