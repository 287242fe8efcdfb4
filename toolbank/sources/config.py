"""Configuration of the sources: where tools come from."""

from typing import Annotated, Literal

from pydantic import Field

from toolbank.config import Config


class PythonSource(Config):
    """An installed Python package, read by introspection."""

    type: Literal["python"] = "python"
    package: str = Field(min_length=1, description="import name, such as numpy")
    exclude: tuple[str, ...] = Field(
        default=(), description="modules to leave out, with all that is in them"
    )
    methods: bool = Field(default=False, description="take methods of classes too")


class SphinxSource(Config):
    """A Sphinx site, read through crawlers/<site>.yaml."""

    type: Literal["sphinx"] = "sphinx"
    site: str = Field(min_length=1, description="name of a file in crawlers/")
    base_url: str | None = Field(
        default=None, description="another address of the same site"
    )


SourceConfig = Annotated[PythonSource | SphinxSource, Field(discriminator="type")]
