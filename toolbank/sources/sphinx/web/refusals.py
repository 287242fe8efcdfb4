"""Why a request came to nothing, in words that are the same from one try to the next."""

from scrapy.exceptions import IgnoreRequest

from toolbank.system.terminal import printable

# What the reader calls a failure, by the name of the crawler's exception.
_FAILURES = {
    "DownloadConnectionRefusedError": "connection refused",
    "CannotResolveHostError": "host not found",
    "DownloadTimeoutError": "timed out",
    "UnsupportedURLSchemeError": "no address that can be asked",
    "ResponseDataLossError": "broken off",
    "DownloadFailedError": "connection failed",
}

FORBIDDEN = "forbidden by robots.txt"


class Refused(IgnoreRequest):
    """The crawler won't ask, or won't read the answer; `str()` of it is the reason."""


class NotAsked(Refused):
    """The crawl ended, or the site let no one in, before the request; a later one may be sent."""


def reason_of(error: BaseException | None) -> str:
    """Why a request failed."""
    if isinstance(error, IgnoreRequest):
        text = str(error)
        return "redirected too often" if "max redirections" in text else in_a_line(text)
    if isinstance(error, ValueError):
        return "led to what is no address"
    name = type(error).__name__
    if name == "DownloadCancelledError":
        return "too large"
    return _FAILURES.get(name, name)


def in_a_line(text: str) -> str:
    """What a site says of itself, such as an address, as a part of a message."""
    return " ".join(printable(text).split())


def may_pass(error: BaseException | None) -> bool:
    """Whether the same request may fare better later."""
    return isinstance(error, NotAsked) or type(error).__name__ in _FAILURES


def may_pass_status(status: int) -> bool:
    """Whether an answer of this status may be followed by a better one."""
    return status >= 500 or status in (408, 425, 429)
