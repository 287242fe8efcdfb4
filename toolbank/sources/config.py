"""Configuration of the sources: where tools come from."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from toolbank.config.base import Config
from toolbank.sources.conduct import Conduct
from toolbank.system.addresses import checked_address


class PythonSource(Config):
    """An installed Python package, read by introspection.

    Where neither `parents` nor `exclude` is given, those of crawlers/<package>.yaml count, if
    there is one: the same scope as a crawl of the package's pages.
    """

    type: Literal["python"] = "python"
    package: str = Field(min_length=1, description="import name, such as numpy")
    parents: tuple[str, ...] | None = Field(
        default=None, description="modules whose direct members count; unset: all"
    )
    exclude: tuple[str, ...] | None = Field(
        default=None, description="names to leave out, with all that is in them"
    )
    methods: bool = Field(default=False, description="take methods of classes too")

    @property
    def scope_name(self) -> str:
        """The file in crawlers/ that may give the scope."""
        return self.package

    @property
    def has_default_scope(self) -> bool:
        """Whether the recipe leaves the scope to crawlers/<package>.yaml."""
        return self.parents is None and self.exclude is None


class SphinxSource(Config):
    """A Sphinx site, read through crawlers/<site>.yaml, or by its inventory alone.

    Without `site`, all that can be called and has a public name is a tool.
    """

    type: Literal["sphinx"] = "sphinx"
    site: str | None = Field(
        default=None, min_length=1, description="name of a file in crawlers/"
    )
    base_url: str | None = Field(
        default=None,
        description="the site's address; with `site`, another address of the same pages",
    )
    include: tuple[str, ...] = Field(
        default=(),
        description="only these names, with all that is in them, such as ec2.client",
    )
    exclude: tuple[str, ...] = Field(
        default=(),
        description="names to leave out, besides those that the site's file does",
    )
    conduct: Conduct = Field(
        default=Conduct(), description="manners and limits of the crawl"
    )

    @field_validator("base_url")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        return value and checked_address(value)

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if self.site is None and self.base_url is None:
            raise ValueError("give `site`, a file of crawlers/, or `base_url`, or both")
        return self

    @property
    def label(self) -> str:
        """What messages call the source."""
        return f"sphinx:{self.site or self.base_url}"

    @property
    def scope_name(self) -> str | None:
        """The file in crawlers/ that says what to read."""
        return self.site


SourceConfig = Annotated[PythonSource | SphinxSource, Field(discriminator="type")]
