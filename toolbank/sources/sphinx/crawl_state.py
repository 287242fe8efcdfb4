"""What a crawl of a site has brought in, and what was made of it."""

from dataclasses import dataclass, field

from toolbank.bank.records import Tool
from toolbank.sources.sphinx.inventory import Listed, Scope
from toolbank.sources.sphinx.pages.page import PageObject


@dataclass
class Crawl:
    """A crawl: filled while it goes on, and read into `tools` at its end.

    `label` is what messages call the source, `base_url` where its pages were asked for; rules that
    are `guessed` were in no file before.

    `scope` is there once the inventory was read. `objects` and `listed`, what tables link to, go
    by (page, anchor); `failed` says why a page gave nothing, and `may_pass` holds those of which
    another try may give more; `pages` holds the bytes of those that were read, `from_cache` which
    of them were not sent anew, and `stale` which of these the site could not be asked about. So
    many `requests` were sent in so many `seconds`. `limit` says what ended the crawl early, if
    anything did.

    `tools` are sorted by name, without prompt names. Every object of the inventory is a tool,
    another name of one (`Tool.aliases`), or in `left_out`, by reason.
    """

    label: str
    base_url: str
    guessed: bool = False
    scope: Scope | None = None
    objects: dict[tuple[str, str], PageObject] = field(default_factory=dict)
    listed: set[tuple[str, str]] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    may_pass: set[str] = field(default_factory=set)
    pages: dict[str, int] = field(default_factory=dict)
    from_cache: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)
    requests: int = 0
    seconds: float = 0.0
    limit: str = ""
    tools: list[Tool] = field(default_factory=list)
    left_out: dict[str, list[Listed]] = field(default_factory=dict)

    @property
    def found(self) -> Scope:
        """The scope of a crawl that ended without error."""
        if self.scope is None:
            raise AssertionError("a crawl that ends without error has an inventory")
        return self.scope
