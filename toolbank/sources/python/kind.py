"""An installed package, as a kind of source."""

from pathlib import Path

from toolbank.sources.kind import Collected, SourceKind
from toolbank.sources.python.installed import (
    package_places,
    package_version,
    source_hash,
)
from toolbank.sources.python.source import PythonSource


def _read_tools(config: PythonSource, _: Path) -> Collected:
    from toolbank.sources.python.apart import read_apart

    return read_apart(config)


def _content_id(config: PythonSource) -> str:
    """Version of the package, with a hash of one that may change under its version."""
    content = source_hash(config.package)[:16]
    return f"python:{package_version(config.package)}{content and '+'}{content}"


KIND = SourceKind(
    PythonSource,
    _read_tools,
    _content_id,
    places=lambda config: package_places(config.package),
)
