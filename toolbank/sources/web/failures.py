"""Why a request came to nothing, in words that are the same from one try to the next."""

from typing import Self

from toolbank.system.terminal import printable


class RequestError(Exception):
    """A request came to nothing; `str()` of it is the reason.

    `may_pass` says whether the same request may fare better later.
    """

    may_pass = False

    def __init__(self, reason: str) -> None:
        super().__init__(" ".join(printable(reason).split()))

    def led_to(self, url: str) -> Self:
        """The same of a page that another one led to."""
        place = " ".join(printable(url).split())
        reason = str(self)
        return self if place in reason else type(self)(f"{reason}, led to {place}")


class RefusedError(RequestError):
    """The crawler won't ask, or won't read the answer."""


class ForbiddenError(RefusedError):
    """The site's robots.txt forbids it."""


class EndlessError(RefusedError):
    """Redirects led on and on."""


class NotAskedError(RequestError):
    """The crawl ended, or the site let no one in, before the request."""

    may_pass = True


class UnansweredError(RequestError):
    """The site could not be reached, or gave no answer."""

    may_pass = True


class BrokenOffError(RequestError):
    """An answer that began did not come to its end."""

    may_pass = True


def may_pass_status(status: int) -> bool:
    """Whether an answer of this status may be followed by a better one."""
    return status >= 500 or status in (408, 425, 429)
