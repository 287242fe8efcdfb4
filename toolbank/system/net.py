"""Check web addresses and proxies; read the time that a server asks to wait."""

from __future__ import annotations

import ipaddress
import math
import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from toolbank.system.errors import InputError

# Special networks that some version of the standard library considers public.
_SPECIAL_4 = (
    ipaddress.IPv4Network("192.0.0.0/24"),  # protocol assignments (RFC 6890)
    ipaddress.IPv4Network("192.88.99.0/24"),  # 6to4 relays (RFC 7526)
)
_SPECIAL_6 = (
    # Protocol assignments (RFC 2928): Teredo, benchmarking, ORCHID, AMT, drones.
    ipaddress.IPv6Network("2001::/23"),
    ipaddress.IPv6Network("2001:db8::/32"),  # documentation (RFC 3849)
    ipaddress.IPv6Network("2002::/16"),  # 6to4, a tunnel (RFC 7526)
    ipaddress.IPv6Network("3fff::/20"),  # documentation (RFC 9637)
)
# All IPv6 addresses of the public internet (RFC 4291, section 2.4).
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
# Contains an IPv4 address in the last 32 bits (RFC 6052).
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def checked_address(address: str) -> str:
    """Check the address of a folder on the web, and add the slash at its end.

    Raises:
        ValueError: it is not an http or https address, or has a user name, password, query or
            fragment, which the message does not repeat because it may be a secret.
    """
    if any(sign in address for sign in "@?#"):
        raise ValueError(
            "the address has a user name, password, query or fragment; give it without"
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
    """Check whether it is a URL of http or https, not a path."""
    return place[:8].lower().startswith(("http://", "https://"))


def is_private(url: str) -> bool:
    """Check whether a URL's host is this machine or private, by its name or address."""
    host = _host(url)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        is_near_name = host.endswith((".localhost", ".local", ".internal"))
        return bool(host) and ("." not in host or is_near_name)
    return not is_public_ip(host)


def is_loopback(url: str) -> bool:
    """Check whether a URL's host is this machine, by its name or address."""
    host = _host(url)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    inner = getattr(address, "ipv4_mapped", None)
    return (inner or address).is_loopback


def is_public_ip(text: str) -> bool:
    """Check whether an IP address belongs to the public internet: the only definition of this.

    Not public are this machine, private and link-local addresses (with cloud metadata), shared
    (RFC 6598), benchmarking (RFC 2544), documentation, multicast and reserved ones, tunnels (6to4,
    Teredo), and all of IPv6 outside 2000::/3: site-local, unique local, discard-only, and the NAT64
    prefix of local networks (RFC 8215). For an address that contains an IPv4 address (mapped, or
    by 64:ff9b::/96), that one counts.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped or address in _NAT64:
            address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        elif address not in _GLOBAL_UNICAST:
            return False
    special = _SPECIAL_4 if address.version == 4 else _SPECIAL_6
    return (
        address.is_global
        and not address.is_multicast
        and not any(address in network for network in special)
    )


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of a URL, which identify a site."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", port


def proxy_of(url: str) -> str | None:
    """Find the proxy for a URL in the environment: HTTP_PROXY or HTTPS_PROXY, else ALL_PROXY.

    There is none for this machine, and for hosts in NO_PROXY.

    Raises:
        InputError: it is not the address of an HTTP proxy.
    """
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_loopback(url) or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    try:
        given = urlsplit(proxy)
        is_usable = (
            given.scheme in ("http", "https") and given.hostname and given.port != 0
        )
    except ValueError:
        is_usable = False
    if not is_usable or not proxy.isprintable():
        raise InputError(
            f"The proxy in the environment for {parts.scheme}://{parts.hostname} cannot be "
            "used. Give HTTP_PROXY, HTTPS_PROXY or ALL_PROXY as http://HOST:PORT or "
            "https://HOST:PORT, or name the host in NO_PROXY."
        )
    return proxy


def _host(url: str) -> str:
    """Return the host of a URL without a final dot; "" if it has none."""
    try:
        return (urlsplit(url).hostname or "").removesuffix(".")
    except ValueError:
        return ""


_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_PART = re.compile(r"(\d+(?:\.\d*)?)(ms|us|d|h|m|s)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
# A larger number is a time since 1970, in seconds or milliseconds.
_EPOCH_S = 1e9
_EPOCH_MS = 1e12


def read_seconds(text: str, now: float) -> float | None:
    """Read how long to wait, in seconds from `now` (since 1970); None if it is not a time.

    It can be a number of seconds or a date, as in Retry-After (RFC 9110, 10.2.3), a duration such
    as 6m0s, or a time since 1970 in seconds or milliseconds. A time in the past is 0.
    """
    text = text.strip()
    if not text:
        return None
    value = read_number(text)
    if value is not None:
        if value >= _EPOCH_MS:
            value = value / 1000 - now
        elif value >= _EPOCH_S:
            value -= now
        return max(0.0, value)
    if _DURATION.fullmatch(text):
        return sum(float(n) * _UNITS[unit] for n, unit in _PART.findall(text))
    try:
        date = parsedate_to_datetime(text)
        return max(0.0, date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def read_number(text: str) -> float | None:
    """Read a finite number; None if the text is not one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
