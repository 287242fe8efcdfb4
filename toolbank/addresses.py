"""Web addresses: which are refused, and which are near."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def checked_address(address: str) -> str:
    """The address of a folder on the web, with the slash that ends it.

    Raises:
        ValueError: it is no http or https address, or has a user name, password, query or
            fragment; as that may be a secret, the message does not repeat it.
    """
    if any(sign in address for sign in "@?#"):
        raise ValueError(
            "the address has a user name, password, query or fragment in it; give it without"
        )
    try:
        parts = urlsplit(address)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(
            f"{address!r} is no site's address; give one such as https://numpy.org/doc/2.0/"
        )
    return address if address.endswith("/") else f"{address}/"


def is_private(url: str) -> bool:
    """Whether a URL's host is this machine or in a private network, by its name or address."""
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        is_near_name = host.endswith((".localhost", ".local", ".internal"))
        return bool(host) and ("." not in host or is_near_name)
    return address.is_private or address.is_loopback
