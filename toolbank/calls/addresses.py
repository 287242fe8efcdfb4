"""Which addresses calls may go to."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from toolbank.calls.errors import CallError

_PUBLIC = ipaddress.IPv6Network("2000::/3")
"""All of IPv6 that is given to the public; what is in it for tunnels and examples follows."""
_NOT_PUBLIC = tuple(
    ipaddress.IPv6Network(network)
    for network in ("2001::/32", "2002::/16", "2001:db8::/32", "3fff::/20")
)
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""Stands for an address of IPv4, its last 32 bits (NAT64)."""


class CheckedResolver(AbstractResolver):
    """Resolves names, and gives only addresses that may be called.

    The connection goes to an address that was checked: a name that is turned to another one
    afterwards (DNS rebinding) gains nothing.
    """

    def __init__(self, *, private: bool) -> None:
        self._private, self._resolver = private, ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a name.

        Raises:
            CallError: one of them is not public, and may not be called.
        """
        found = await self._resolver.resolve(host, port, family)
        for one in found:
            check_address(one["host"], private=self._private)
        return found

    async def close(self) -> None:
        """Let go of the system's resolver."""
        await self._resolver.close()


def connect_to(url: str, *, private: bool) -> aiohttp.TCPConnector:
    """Connections for calls to an address.

    Raises:
        CallError: it is written in digits, is not public, and may not be called.
    """
    host = urlsplit(url).hostname or ""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        check_address(host, private=private)
    return aiohttp.TCPConnector(
        resolver=CheckedResolver(private=private), use_dns_cache=False
    )


def is_private(url: str) -> bool:
    """Whether an address is, as it is written, none that is public; a name is not looked up."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return not _is_public(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return False


def check_address(host: str, *, private: bool) -> None:
    """Refuse an address that is not public, unless these may be called.

    An address of IPv6 that stands for one of IPv4 is refused where that is, and so is all that
    leads through a tunnel (6to4, Teredo).

    Raises:
        CallError: it is refused.
    """
    if private or _is_public(ipaddress.ip_address(host.partition("%")[0])):
        return
    raise CallError(
        "The address is not a public one. Who runs the server may allow it by "
        "`private: true`."
    )


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped or address in _TRANSLATED:
            return _is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _PUBLIC or any(address in one for one in _NOT_PUBLIC):
            return False
    return address.is_global and not address.is_multicast
