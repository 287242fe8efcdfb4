"""Names that resolve to what a test says."""

import socket


def resolve_to(monkeypatch, name, addresses):
    """Let the system's resolver give these addresses for a name."""
    real = socket.getaddrinfo

    def getaddrinfo(host, port, *args, **kwargs):
        if host not in (name, name.encode()):
            return real(host, port, *args, **kwargs)
        places = [
            (socket.AF_INET6, (address, port, 0, 0))
            if ":" in address
            else (socket.AF_INET, (address, port))
            for address in addresses
        ]
        return [(kind, socket.SOCK_STREAM, 6, "", place) for kind, place in places]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
