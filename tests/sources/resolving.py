"""Names that resolve to what a test says."""

from __future__ import annotations

import socket

import pytest


def resolve_to(
    monkeypatch: pytest.MonkeyPatch, name: str, addresses: list[str]
) -> None:
    """Let the system's resolver give these addresses for a name."""
    real = socket.getaddrinfo

    def getaddrinfo(
        host: object, port: object, *args: object, **kwargs: object
    ) -> object:
        if host not in (name, name.encode()):
            return real(host, port, *args, **kwargs)  # type: ignore[arg-type]
        return [
            (
                socket.AF_INET6 if ":" in address else socket.AF_INET,
                socket.SOCK_STREAM,
                socket.IPPROTO_TCP,
                "",
                (address, port, 0, 0) if ":" in address else (address, port),
            )
            for address in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
