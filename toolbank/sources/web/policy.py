"""Settings of a crawl: how fast it asks, and where it stops."""

import re

from pydantic import Field, field_validator

from toolbank.config.base import Config, Transport
from toolbank.system.net import is_loopback, is_private, proxy_of
from toolbank.system.version import __version__


class CrawlPolicy(Config):
    """Rate and limits of a crawl; the defaults suit public sites.

    A private site is one whose address names this machine or a private network.
    """

    contact: Transport[str] = Field(
        default="",
        max_length=200,
        description="email or URL that the user agent includes, for the site's owner",
    )
    delay_s: Transport[float | None] = Field(
        default=None,
        ge=0,
        le=600,
        description="seconds between requests; unset: 0.25, or 0 on a private site",
    )
    concurrency: Transport[int | None] = Field(
        default=None,
        ge=1,
        le=32,
        description="concurrent requests; unset: 2, or 8 on a private site",
    )
    max_age_h: Transport[float] = Field(
        default=168,
        ge=0,
        description="hours that a cached page is fresh; 0: always revalidate",
    )
    private_addresses: Transport[bool] = Field(
        default=False,
        description="allow a public host name that resolves to a private address",
    )
    page_mb: float = Field(
        default=16,
        gt=0,
        le=1024,
        description="maximum size of a page in MB, before and after decompression",
    )
    request_s: Transport[float] = Field(
        default=30, gt=0, description="timeout of a request in seconds"
    )
    retries: Transport[int] = Field(
        default=2, ge=0, le=10, description="retries per page"
    )
    wait_s: Transport[float] = Field(
        default=120,
        ge=0,
        description="longest accepted Retry-After or Crawl-delay, in seconds",
    )
    crawl_min: Transport[float] = Field(
        default=360, gt=0, description="time limit of the crawl in minutes"
    )
    requests: Transport[int] = Field(
        default=50_000, ge=1, description="maximum number of requests"
    )

    @field_validator("contact")
    @classmethod
    def _check_contact(cls, value: str) -> str:
        # No line break or bracket may end the comment of the User-Agent header.
        is_safe = re.fullmatch(r"""[!-~]*""", value) and not set(value) & set('()<>\\"')
        is_reachable = "@" in value or value.startswith(("http://", "https://"))
        if value and not (is_safe and is_reachable):
            raise ValueError(
                "give a mail address or the address of a web page, in plain ASCII without "
                "spaces, brackets or quotes, such as me@example.org"
            )
        return value


class CrawlSettings:
    """A crawl's policy with the defaults for its site.

    A crawl that `adapts` waits longer between requests while the site answers slowly. Certificates
    are verified, except for a site on this machine. A proxy of the environment is used; it resolves
    names itself, so private addresses behind a public name are not checked.
    """

    def __init__(self, base_url: str, policy: CrawlPolicy) -> None:
        is_near = is_private(base_url)
        contact = f" (+{policy.contact})" if policy.contact else ""
        self.policy = policy
        self.user_agent = f"toolbank/{__version__}{contact}"
        self.concurrency = policy.concurrency or (8 if is_near else 2)
        self.delay_s = 0.0 if is_near else 0.25
        if policy.delay_s is not None:
            self.delay_s = policy.delay_s
        self.adapts = not is_near
        self.first_wait_s = 0.2 if is_near else 2.0
        self.max_bytes = int(policy.page_mb * 1024 * 1024)
        self.verifies = not is_loopback(base_url)
        self.proxy = proxy_of(base_url)
        self.guards = not (is_near or policy.private_addresses or self.proxy)
