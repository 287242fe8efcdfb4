"""robots.txt: what the site asks of crawlers."""

from protego import Protego

from toolbank.sources.web.answer import Answer

# RFC 9309 2.5 has crawlers read at least so much.
MAX_ROBOTS_BYTES = 500 * 1024
_AGENT = "toolbank"


class Robots:
    """The rules of a site (RFC 9309); "" allows everything."""

    def __init__(self, text: str = "") -> None:
        self._rules = Protego.parse(text)

    @property
    def delay_s(self) -> float:
        """Seconds that the site wants between two requests."""
        return float(self._rules.crawl_delay(_AGENT) or 0.0)

    def allows(self, url: str) -> bool:
        """Whether a page may be asked for."""
        return bool(self._rules.can_fetch(url, _AGENT))


def read_robots(answer: Answer) -> Robots:
    """What the site's robots.txt says; one that is not there allows everything."""
    if answer.status != 200:
        return Robots()
    body = answer.body[:MAX_ROBOTS_BYTES]
    if len(answer.body) > MAX_ROBOTS_BYTES:
        # A rule that is cut off would say something else.
        body = body.rpartition(b"\n")[0]
    return Robots(body.decode("utf-8-sig", errors="replace"))
