"""Connect to public addresses only, and limit the size of responses."""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from toolbank.system.net import is_public_ip


class PrivateAddressError(Exception):
    """A host has no public address; `address` is its first one."""

    def __init__(self, address: str) -> None:
        super().__init__(f"{address} is not a public address")
        self.address = address


async def resolve_public(
    host: str, port: int | None, family: int = socket.AF_UNSPEC
) -> list[str]:
    """Resolve the public addresses of a host, in the system's order.

    Connect to these and not to the name, which may resolve to others next time (DNS rebinding).

    Raises:
        OSError: the host is not found.
        PrivateAddressError: it has no public address.
    """
    rows = await asyncio.get_running_loop().getaddrinfo(
        host, port, family=family, type=socket.SOCK_STREAM
    )
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in rows))
    public = [address for address in addresses if is_public_ip(address)]
    if not public:
        raise PrivateAddressError(addresses[0])
    return public


def make_connector(*, guards: bool, **options: Any) -> aiohttp.TCPConnector:
    """Make a connector of aiohttp; if it `guards`, it connects to public addresses only.

    A request to another address raises PrivateAddressError. A host that is an IP address bypasses
    the resolver, so addresses are checked again when a socket is opened.
    """
    if guards:
        options |= {"resolver": _PublicResolver(), "socket_factory": _open_public}
    return aiohttp.TCPConnector(**options)


class _PublicResolver(AbstractResolver):
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in await resolve_public(host, port, family)
        ]

    async def close(self) -> None:
        pass


def _open_public(info: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, address = info
    if not is_public_ip(str(address[0])):
        raise PrivateAddressError(str(address[0]))
    return socket.socket(family=family, type=kind, proto=protocol)


class TooLargeError(Exception):
    """A response is larger than allowed; the allowed part was read before."""


class EncodingError(Exception):
    """A response has an encoding that was not requested; `str()` names it."""


_UNPACKED = frozenset({"gzip", "x-gzip", "deflate"})
_PIECE = 2**16
# zlib's window bits for gzip and zlib, detected by their first bytes, and for deflate without a
# header, which some servers send.
_WITH_HEAD, _WITHOUT_HEAD = 47, -15
_GZIP, _ZLIB = b"\x1f", 0x08


def read_encodings(header: str) -> list[str]:
    """Read a Content-Encoding header: the encodings of a body, in their order.

    Raises:
        EncodingError: one of them is not supported.
    """
    names = [name.strip() for name in header.lower().split(",")]
    packed = [name for name in names if name not in ("", "identity")]
    if not _UNPACKED.issuperset(packed):
        raise EncodingError(", ".join(packed))
    return packed


async def read_body(response: aiohttp.ClientResponse, most: int) -> tuple[bytes, bool]:
    """Read at most `most` decompressed bytes of a body, and whether that is all.

    The session must have `auto_decompress` off. The connection is closed if there is more.

    Raises:
        EncodingError: the encoding is not supported.
        zlib.error: the body is damaged or incomplete.
    """
    body = bytearray()
    try:
        async for part in read_parts(response, most):
            body += part
    except TooLargeError:
        response.close()
        return bytes(body), False
    return bytes(body), True


async def read_parts(
    response: aiohttp.ClientResponse, most: int
) -> AsyncIterator[bytes]:
    """Read a body as it arrives; more than `most` bytes raise TooLargeError."""
    encodings = read_encodings(response.headers.get("Content-Encoding", ""))
    reader = BoundedReader(most, encodings)
    async for chunk in response.content.iter_any():
        for part in reader.feed(chunk):
            yield part
    reader.end()


class BoundedReader:
    """Decompresses a body as it arrives, and limits its size; the caller limits the time.

    `most` limits the bytes that are sent, and the output of each encoding.
    """

    def __init__(self, most: int, encodings: Sequence[str] = ()) -> None:
        self._unpackers = [_Unpacker(name) for name in reversed(encodings)]
        self._left = [most] * (len(encodings) + 1)

    def feed(self, chunk: bytes, stage: int = 0) -> Iterator[bytes]:
        """Decompress the next bytes.

        Raises:
            TooLargeError: there is more than allowed; the allowed part was given.
            zlib.error: they are damaged.
        """
        part = chunk[: self._left[stage]]
        self._left[stage] -= len(part)
        if stage == len(self._unpackers):
            yield part
        else:
            for piece in self._unpackers[stage].feed(part):
                yield from self.feed(piece, stage + 1)
        if len(part) < len(chunk):
            raise TooLargeError

    def end(self) -> None:
        """Finish the body.

        Raises:
            zlib.error: it is incomplete.
        """
        for unpacker in self._unpackers:
            unpacker.end()


class _Unpacker:
    def __init__(self, name: str) -> None:
        self._name = name
        self._inner: Any = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        piece = b""
        # After a full piece there may be more output without more input.
        while chunk or len(piece) == _PIECE:
            # A gzip stream may have several members.
            if not self._inner or (self._inner.eof and chunk.startswith(_GZIP)):
                has_head = chunk.startswith(_GZIP) or chunk[0] & 0x0F == _ZLIB
                is_plain = self._name == "deflate" and not has_head
                self._inner = zlib.decompressobj(
                    _WITHOUT_HEAD if is_plain else _WITH_HEAD
                )
            if self._inner.eof:
                break
            piece = self._inner.decompress(chunk, _PIECE)
            yield piece
            is_over = self._inner.eof
            chunk = self._inner.unused_data if is_over else self._inner.unconsumed_tail

    def end(self) -> None:
        if self._inner and not self._inner.eof:
            raise zlib.error("it ends too soon")
