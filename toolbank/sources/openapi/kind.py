"""An OpenAPI description, as a kind of source."""

import gc
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from toolbank.sources.kind import Collected, SourceKind
from toolbank.sources.openapi.content_hash import hash_files
from toolbank.sources.openapi.source import OpenApiSource
from toolbank.sources.thing import Thing

_ADDRESS = re.compile(r"\.(json|ya?ml)$|/(openapi|swagger|api-docs)[^/]*$", re.I)
_IN_JSON = re.compile(rb'"(openapi|swagger)"\s*:\s*"?\d')
_IN_YAML = re.compile(rb"""^["']?(openapi|swagger)["']?\s*:\s*["']?\d""", re.M)


def _read_tools(config: OpenApiSource, _: Path) -> Collected:
    from toolbank.sources.openapi.reader import read_description

    with _collector_paused():
        return read_description(config)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the garbage collector from going through all that is read, again and again.

    It finds nothing there, and takes a fifth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _content_id(config: OpenApiSource) -> str:
    """The address, or a hash of the file and of those that it refers to."""
    if config.address:
        digest = hashlib.sha256(config.address.encode()).hexdigest()
        return f"{config.label}@{digest[:16]}"
    return f"{config.label}#{hash_files(Path(config.spec), config.root)}"


def _recognise(thing: Thing) -> OpenApiSource | None:
    """What says that it is one at its top, or has an address that nothing else has."""
    is_file = thing.path is not None and thing.path.is_file()
    if not (is_file or thing.is_url):
        return None
    if not (thing.is_url and _ADDRESS.search(urlsplit(thing.text).path)):
        content = thing.content.removeprefix(b"\xef\xbb\xbf")
        version = _IN_JSON if content.lstrip()[:1] == b"{" else _IN_YAML
        if not version.search(content):
            return None
    return OpenApiSource(spec=str(thing.path or thing.text))


KIND = SourceKind(
    OpenApiSource,
    _read_tools,
    _content_id,
    places=lambda config: () if config.address else (Path(config.spec),),
    recognise=_recognise,
    takes="an OpenAPI file or its URL",
)
"""Files are read each time; what is at an address is read again by `toolbank refresh`."""
