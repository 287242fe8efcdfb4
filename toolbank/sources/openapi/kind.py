"""An OpenAPI description, as a kind of source."""

import hashlib
from pathlib import Path

from toolbank.sources.kind import Collected, SourceKind
from toolbank.sources.openapi.content_hash import hash_files
from toolbank.sources.openapi.source import OpenApiSource


def _read_tools(config: OpenApiSource, _: Path) -> Collected:
    from toolbank.sources.openapi.reader import read_description

    return read_description(config)


def _content_id(config: OpenApiSource) -> str:
    """The address, or a hash of the file and of those that it refers to."""
    if config.address:
        digest = hashlib.sha256(config.address.encode()).hexdigest()
        return f"{config.label}@{digest[:16]}"

    return f"{config.label}#{hash_files(Path(config.spec), config.root)}"


KIND = SourceKind(
    OpenApiSource,
    _read_tools,
    _content_id,
    places=lambda config: () if config.address else (Path(config.spec),),
)
"""Files are read each time; what is at an address is read again by `toolbank refresh`."""
