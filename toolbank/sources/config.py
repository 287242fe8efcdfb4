"""Configuration of the sources: where tools come from."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from toolbank.addresses import checked_address
from toolbank.config import Config
from toolbank.errors import InputError


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
    """A Sphinx site, read through crawlers/<site>.yaml."""

    type: Literal["sphinx"] = "sphinx"
    site: str = Field(min_length=1, description="name of a file in crawlers/")
    base_url: str | None = Field(
        default=None, description="another address of the same site"
    )

    @field_validator("base_url")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        try:
            return value and checked_address(value)
        except ValueError as error:
            # Not pydantic's error, so that a command that builds a source tells it as it is.
            raise InputError(f"base_url: {error}.") from None

    @property
    def scope_name(self) -> str:
        """The file in crawlers/ that says what to read."""
        return self.site


SourceConfig = Annotated[PythonSource | SphinxSource, Field(discriminator="type")]
