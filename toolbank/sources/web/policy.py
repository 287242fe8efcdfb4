"""How a crawl behaves on a site, and where it ends."""

import re
from dataclasses import dataclass

from pydantic import Field, field_validator

from toolbank.config.base import Config, Transport
from toolbank.system.net import is_loopback, is_private, proxy_of
from toolbank.system.version import __version__


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


_MB = 1024 * 1024


@dataclass(frozen=True)
class CrawlSettings:
    """A crawl's policy, and what it comes to on its site.

    A site that is asked gently is waited for longer where it `adapts` to slow answers.
    """

    policy: CrawlPolicy
    user_agent: str
    concurrency: int
    delay_s: float
    adapts: bool
    first_wait_s: float
    max_bytes: int
    verifies: bool
    guards: bool
    proxy: str | None


def crawl_settings(base_url: str, policy: CrawlPolicy) -> CrawlSettings:
    """The settings for a site.

    A site must prove who it is by its certificate, but for one on this very machine.
    A proxy that the environment names is used, and then it is the proxy that looks names up:
    private addresses behind a public name are its matter.
    """
    is_near = is_private(base_url)
    delay_s = policy.delay_s
    if delay_s is None:
        delay_s = 0.0 if is_near else 0.25
    proxy = proxy_of(base_url)
    contact = f" (+{policy.contact})" if policy.contact else ""
    return CrawlSettings(
        policy=policy,
        user_agent=f"toolbank/{__version__}{contact}",
        concurrency=policy.concurrency or (8 if is_near else 2),
        delay_s=delay_s,
        adapts=not is_near,
        first_wait_s=0.2 if is_near else 2.0,
        max_bytes=int(policy.page_mb * _MB),
        verifies=not is_loopback(base_url),
        guards=not (is_near or policy.private_addresses or proxy),
        proxy=proxy,
    )
