"""Configuration of a Sphinx site as a source."""

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from toolbank.sources.kind import SourceConfig
from toolbank.sources.web.policy import CrawlPolicy
from toolbank.system.net import checked_address


class SphinxSource(SourceConfig):
    """A Sphinx site, read by the rules in crawlers/<site>.yaml if there are some.

    Without `site`, everything that can be called and has a public name is a tool.
    """

    type: Literal["sphinx"] = "sphinx"
    site: str | None = Field(
        default=None,
        min_length=1,
        description="name of a file in crawlers/, without .yaml",
    )
    base_url: str | None = Field(
        default=None,
        description="address of the site; overrides that of `site`",
    )
    include: tuple[str, ...] = Field(
        default=(),
        description="names to include, with their members, such as ec2.client",
    )
    exclude: tuple[str, ...] = Field(
        default=(),
        description="names to exclude, in addition to those of the site's file",
    )
    crawl: CrawlPolicy = Field(
        default=CrawlPolicy(), description="rate and limits of the crawl"
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
        return f"sphinx:{self.name or self.site or self.base_url}"

    @property
    def api_name(self) -> str:
        """The site, or the host of one that has no file; "" for an IP address."""
        if self.site:
            return self.site
        host = (urlsplit(self.base_url or "").hostname or "").removeprefix("www.")
        return host if "." in host and any(map(str.isalpha, host)) else ""

    @property
    def scope_name(self) -> str | None:
        """The file in crawlers/ with the rules."""
        return self.site
