"""How a crawl behaves on a site, and where it ends."""

import re

from pydantic import Field, field_validator

from toolbank.config.base import Config, Transport


class CrawlPolicy(Config):
    """What a user may set of a crawl's manners and limits; the defaults fit public sites.

    A private site is one whose address names this machine or a private network.
    """

    contact: Transport[str] = Field(
        default="",
        max_length=200,
        description="mail address or web page that the user agent names, for the site's owner",
    )
    delay_s: Transport[float | None] = Field(
        default=None,
        ge=0,
        le=600,
        description="seconds between two requests; unset: 0.25, or none on a private site",
    )
    concurrency: Transport[int | None] = Field(
        default=None,
        ge=1,
        le=32,
        description="requests at once; unset: 2, or 8 on a private site",
    )
    max_age_h: Transport[float] = Field(
        default=168,
        ge=0,
        description="hours that a kept page serves without asking the site; 0: ask always",
    )
    private_addresses: Transport[bool] = Field(
        default=False,
        description="let the site lie in a private network though its name does not say so",
    )
    page_mb: float = Field(
        default=16, gt=0, le=1024, description="size of a page, as sent and as unpacked"
    )
    request_s: Transport[float] = Field(
        default=30, gt=0, description="seconds that an answer may take to its last byte"
    )
    retries: Transport[int] = Field(
        default=2, ge=0, le=10, description="further tries of a page"
    )
    wait_s: Transport[float] = Field(
        default=120,
        ge=0,
        description="longest pause that a site may ask for by Retry-After or Crawl-delay",
    )
    crawl_min: Transport[float] = Field(
        default=360, gt=0, description="minutes after which nothing more is asked for"
    )
    requests: Transport[int] = Field(
        default=50_000, ge=1, description="requests that one crawl may send"
    )

    @field_validator("contact")
    @classmethod
    def _check_contact(cls, value: str) -> str:
        # What would end the comment of a User-Agent header is refused, line breaks above all.
        is_safe = re.fullmatch(r"""[!-~]*""", value) and not set(value) & set('()<>\\"')
        is_reachable = "@" in value or value.startswith(("http://", "https://"))
        if value and not (is_safe and is_reachable):
            raise ValueError(
                "give a mail address or the address of a web page, in plain ASCII without "
                "spaces, brackets or quotes, such as me@example.org"
            )
        return value
