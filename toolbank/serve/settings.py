"""How a server is reached, and what it takes."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from toolbank.system.errors import InputError

KEY_VARIABLE = "TOOLBANK_API_KEY"

MOST_BODY = 1_000_000
"""Bytes of a body."""
MOST_QUERY = 10_000
"""Characters of a request."""
MOST_QUERIES = 256
MOST_HITS = 1_000
MOST_ANSWERED = 5_000
"""Hits that the requests of a batch may have together."""
MOST_CALLS = 16
"""Calls that are passed on at once."""
MOST_WAITING = 512
"""Searches that wait for their turn."""
SEARCH_TIME = 30.0
"""Seconds from when a search came until it is given up."""
BODY_TIME = 10.0
"""Seconds in which a whole body, or the head of a first request, has to come."""
STOP_TIME = 30
"""Seconds that searches in flight have when the server is stopped."""


@dataclass(frozen=True)
class Access:
    """Who may ask: with which key ("" for none), and by which names of the server."""

    host: str
    key: str = ""
    names: frozenset[str] = frozenset()

    def knows(self, name: str) -> bool:
        """Whether it may be reached by a name, as the header Host has it without the port.

        An address in digits can't be turned to another by who owns a domain (DNS rebinding);
        names are those given, and localhost.
        """
        name = name.strip("[]").casefold()
        return name in self.names or name == "localhost" or _is_address(name)


def make_access(host: str, key: str, names: list[str], *, without_key: bool) -> Access:
    """Who may ask a server at an address.

    Raises:
        InputError: it would be open to others without a key, or no client can send the key.
    """
    given, key = ("", "") if without_key else (key, key.strip())
    if given and not (key and key.isascii() and key.isprintable()):
        raise InputError(
            f"{KEY_VARIABLE}: no client can send this key. Make it of ASCII's letters, digits "
            "and signs."
        )
    if not key and not without_key and not is_loopback(host):
        raise InputError(
            f"--host {host}: others can reach it, so a key is needed. Set {KEY_VARIABLE}, "
            "or give --no-key to let anybody in."
        )
    known = frozenset(name.casefold() for name in (*names, host))
    return Access(host, key, known)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
