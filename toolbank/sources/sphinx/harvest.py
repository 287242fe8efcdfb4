"""What a crawl of a site brings in."""

from dataclasses import dataclass, field

from toolbank.sources.sphinx.inventory import Scope
from toolbank.sources.sphinx.pages.page import PageObject


@dataclass
class Harvest:
    """What a crawl gave so far.

    `scope` is there once the inventory was read. `objects` and `listed`, what tables link to, go
    by (page, anchor); `failed` says why a page gave nothing, and `may_pass` holds those of which
    another try may give more; `pages` holds the bytes of those that were read, `from_cache` which
    of them were not sent anew, and `stale` which of these the site could not be asked about. So
    many `requests` were sent. `limit` says what ended the crawl early, if anything did. `error` is
    what it failed with.
    """

    scope: Scope | None = None
    objects: dict[tuple[str, str], PageObject] = field(default_factory=dict)
    listed: set[tuple[str, str]] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    may_pass: set[str] = field(default_factory=set)
    pages: dict[str, int] = field(default_factory=dict)
    from_cache: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)
    requests: int = 0
    limit: str = ""
    error: Exception | None = None
    is_complete: bool = False
