"""How a crawl behaves on a site: gently, but at full speed on a private one."""

from dataclasses import dataclass

from toolbank.sources.web.crawl_policy import CrawlPolicy
from toolbank.system.net import is_loopback, is_private, proxy_of
from toolbank.system.version import __version__

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
