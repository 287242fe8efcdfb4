"""Send a call to an HTTP API, at an address that was checked."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from toolbank.search.calls.config import CallError, Target
from toolbank.search.calls.request import Prepared

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


CALL_TIME = 30.0
"""Seconds that a call may take."""
MOST_ANSWER = 1_000_000
"""Bytes of an answer."""


async def send(request: Prepared, target: Target) -> str:
    """The answer's text, without the target's credential; redirects are not followed.

    Raises:
        CallError: an argument would set the credential's header; the API can't be reached, does
            not answer in time, answers with an error or a redirect, or with more than may be.
    """
    headers = dict(request.headers)
    if target.credential:
        if _fold(target.credential.header) in map(_fold, headers):
            raise CallError(
                f"{target.credential.header}: a header that no argument sets."
            )
        headers |= target.credential.headers()
    try:
        async with (
            aiohttp.ClientSession(
                connector=connect_to(request.url, private=target.private),
                timeout=aiohttp.ClientTimeout(total=CALL_TIME),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            ) as session,
            session.request(
                request.method,
                URL(request.url, encoded=True),
                headers=headers,
                data=request.body,
                allow_redirects=False,
            ) as answer,
        ):
            content = await answer.content.read(MOST_ANSWER + 1)
            while len(content) <= MOST_ANSWER and not answer.content.at_eof():
                content += await answer.content.read(MOST_ANSWER + 1 - len(content))
            text = content[:MOST_ANSWER].decode("utf-8", "replace")
            if len(content) > MOST_ANSWER:
                raise CallError(f"The answer is larger than {MOST_ANSWER:,} bytes.")
            text = target.hide(text)
            if answer.status >= 400:
                raise CallError(f"The API answered {answer.status}: {text[:2000]}")
            if 300 <= answer.status < 400:
                raise CallError(
                    f"The API answered {answer.status}, a redirect, which is not followed."
                )
            return text
    except TimeoutError as error:
        raise CallError(f"The API did not answer in {CALL_TIME:g} s.") from error
    # ValueError: what aiohttp won't send, such as a header of two lines.
    except (aiohttp.ClientError, ValueError) as error:
        raise CallError(
            f"The API can't be reached ({type(error).__name__})."
        ) from error


def _fold(header: str) -> str:
    """A header's name as servers may read it, to some of which _ and - are one."""
    return header.lower().replace("_", "-")
