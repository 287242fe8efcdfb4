"""Answers that a web server should not give, each written to the bare socket."""

import gzip
import socket
import struct
import time
import zlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

Answer = Callable[[BaseHTTPRequestHandler], None]

_MB = 1024 * 1024


def answer(body, status="200 OK", **headers):
    """An answer of these very bytes; `content_type="x"` gives the header Content-Type."""
    given = {"Content-Type": "text/html", "Content-Length": str(len(body))}
    given |= {name.replace("_", "-").title(): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    data = f"HTTP/1.1 {status}\r\n{head}Connection: close\r\n\r\n".encode() + body

    def send(handler):
        handler.wfile.write(data)

    return send


def in_turn(*answers):
    """These answers one after another, the last of them for ever."""
    left = list(answers)

    def send(handler):
        (left.pop(0) if len(left) > 1 else left[0])(handler)

    return send


def bomb(encoding, unpacked_mb):
    """A small body that unpacks to many megabytes."""
    data = bytes(unpacked_mb * _MB)
    pack = {"gzip": gzip.compress, "deflate": zlib.compress}
    return answer(pack[encoding](data), content_encoding=encoding)


def dripping(handler):
    """A page that comes byte by byte, as long as anyone waits for it."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
    while True:
        handler.wfile.write(b"x")
        time.sleep(0.05)


def endless(handler):
    """A page without end, as fast as it is read."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
    while True:
        handler.wfile.write(b"<p>more</p>" * 10_000)


def reset(handler):
    """A connection that is reset in the middle of the body."""
    handler.wfile.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 99\r\n\r\n<p>"
    )
    handler.wfile.flush()
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.connection.shutdown(socket.SHUT_RD)
    handler.connection.close()


def rubbish(handler):
    """What is no HTTP at all."""
    handler.wfile.write(b"\x00\xff\x00 220 ready\r\n\r\n")


def cut_off(_):
    """No answer at all."""
