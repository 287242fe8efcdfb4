"""Which addresses calls may go to."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from toolbank.calls.errors import CallError


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


def check_address(host: str, *, private: bool) -> None:
    """Refuse an address that is not public, unless these may be called.

    Raises:
        CallError: it is refused.
    """
    address: Any = ipaddress.ip_address(host.partition("%")[0])
    inner = getattr(address, "ipv4_mapped", None) or address
    if not private and (not inner.is_global or inner.is_multicast):
        raise CallError(
            "The address is not a public one. Who runs the server may allow it by "
            "`private: true`."
        )
