"""Connect to public addresses only, and read a bounded part of an answer."""

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
    """A host has no public address; `address` is the first that it has."""

    def __init__(self, address: str) -> None:
        super().__init__(f"{address} is not a public address")
        self.address = address


async def resolve_public(
    host: str, port: int | None, family: int = socket.AF_UNSPEC
) -> list[str]:
    """Look up the public addresses of a host, in the system's order.

    Connect to these, and not to the name: it may lead elsewhere the next time (DNS rebinding).

    Raises:
        OSError: the host is not found.
        PrivateAddressError: it has other addresses only.
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
    """Make a connector of aiohttp; one that `guards` connects to public addresses only.

    A request to another one raises PrivateAddressError. A host may be given as an address, which
    no resolver sees: so each address is looked at once more where its socket is made.
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
    """An answer is larger than allowed; what is allowed of it was read before."""


class EncodingError(Exception):
    """An answer is compressed in a way that nobody asked for; `str()` names the way."""


_UNPACKED = frozenset({"gzip", "x-gzip", "deflate"})
_PIECE = 2**16
# zlib's window bits for gzip and zlib, told apart by their first bytes; and for deflate without a
# head, which some servers send.
_WITH_HEAD, _WITHOUT_HEAD = 47, -15
_GZIP, _ZLIB = b"\x1f", 0x08


def read_encodings(header: str) -> list[str]:
    """Read a Content-Encoding header: the ways in which a body was compressed, in their order.

    Raises:
        EncodingError: it can't be uncompressed.
    """
    names = [name.strip() for name in header.lower().split(",")]
    packed = [name for name in names if name not in ("", "identity")]
    if not _UNPACKED.issuperset(packed):
        raise EncodingError(", ".join(packed))
    return packed


async def read_body(response: aiohttp.ClientResponse, most: int) -> tuple[bytes, bool]:
    """Read at most so many bytes of an answer's body, uncompressed, and whether that is all.

    The session must have `auto_decompress` off. A connection is closed if not all was read.

    Raises:
        EncodingError: the body can't be uncompressed.
        zlib.error: it is damaged, or cut short.
    """
    reader = BoundedReader(most, _encodings(response))
    body = bytearray()
    try:
        async for chunk in response.content.iter_any():
            for part in reader.feed(chunk):
                body += part
    except TooLargeError:
        response.close()
        return bytes(body), False
    reader.end()
    return bytes(body), True


async def read_parts(
    response: aiohttp.ClientResponse, most: int
) -> AsyncIterator[bytes]:
    """Read the same as `read_body` as it arrives; more than `most` is a TooLargeError."""
    reader = BoundedReader(most, _encodings(response))
    async for chunk in response.content.iter_any():
        for part in reader.feed(chunk):
            yield part
    reader.end()


def _encodings(response: aiohttp.ClientResponse) -> list[str]:
    return read_encodings(response.headers.get("Content-Encoding", ""))


class BoundedReader:
    """Uncompresses a body as it arrives, and bounds it; who reads it bounds the time.

    `most` bounds the bytes that are sent, and those that come out of each encoding.
    """

    def __init__(self, most: int, encodings: Sequence[str] = ()) -> None:
        self._unpackers = [_Unpacker(name) for name in reversed(encodings)]
        self._left = [most] * (len(encodings) + 1)

    def feed(self, chunk: bytes, stage: int = 0) -> Iterator[bytes]:
        """Take the next bytes, and give what comes out of them.

        Raises:
            TooLargeError: there is more than allowed, and what is allowed was given.
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
        """Take the end.

        Raises:
            zlib.error: it comes too soon.
        """
        for unpacker in self._unpackers:
            unpacker.end()


class _Unpacker:
    def __init__(self, name: str) -> None:
        self._name = name
        self._inner: Any = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        piece = b""
        # Of a full piece more may come out, though all that went in was taken.
        while chunk or len(piece) == _PIECE:
            # A file of gzip may have several parts.
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
