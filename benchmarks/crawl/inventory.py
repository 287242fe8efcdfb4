"""objects.inv, read by hand: where each object of the Python domain is documented."""

import zlib
from pathlib import Path
from typing import NamedTuple


class Place(NamedTuple):
    page: str
    anchor: str


def read_places(path: Path, lower: bool) -> dict[str, Place]:
    """Page and anchor by name; boto3's published names are in lower case."""
    packed = path.read_bytes().split(b"\n", 4)[4]
    places = {}
    for line in zlib.decompress(packed).decode("utf-8").splitlines():
        name, role, _, uri, _ = line.split(" ", 4)
        if role.startswith("py:"):
            page, _, anchor = uri.replace("$", name).partition("#")
            places[name.lower() if lower else name] = Place(page, anchor)
    return places
