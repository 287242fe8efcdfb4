"""Web addresses: which are refused, and which are near."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# All that has been given out of IPv6 for the public internet.
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")


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
        is_plain = address.isprintable() and " " not in parts.netloc
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and is_plain
        _ = parts.port
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(
            f"{address!r} is no site's address; give one such as https://numpy.org/doc/2.0/"
        )
    return address if address.endswith("/") else f"{address}/"


def is_url(place: str) -> bool:
    """Whether it is a URL of http or https, not a path."""
    return place[:8].lower().startswith(("http://", "https://"))


def is_private(url: str) -> bool:
    """Whether a URL's host is this machine or in a private network, by its name or address."""
    host = _host(url)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        is_near_name = host.endswith((".localhost", ".local", ".internal"))
        return bool(host) and ("." not in host or is_near_name)
    return not is_public_ip(host)


def is_loopback(url: str) -> bool:
    """Whether a URL's host is this machine, by its name or address."""
    host = _host(url)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    inner = getattr(address, "ipv4_mapped", None)
    return (inner or address).is_loopback


def is_public_ip(text: str) -> bool:
    """Whether an IP address is one of the public internet.

    Not public: this machine, private, link-local (cloud metadata among them), shared (RFC 6598),
    multicast and reserved ones, IPv6 addresses that hold such an IPv4 address, and all others
    outside 2000::/3.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public_ip(str(inner))
        if address not in _GLOBAL_UNICAST:
            return False
    return address.is_global and not address.is_multicast


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of a URL: what a site is, whichever way it is written."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", port


def proxy_of(url: str) -> str | None:
    """The proxy that the environment names for a URL."""
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.hostname or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _host(url: str) -> str:
    """The host of a URL, "" where it has none; the dot that may end a full name says nothing."""
    try:
        return (urlsplit(url).hostname or "").removesuffix(".")
    except ValueError:
        return ""
