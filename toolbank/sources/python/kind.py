"""An installed package, as a kind of source."""

from pathlib import Path

from toolbank.sources.kind import Collected, SourceKind
from toolbank.sources.python.installed import (
    package_places,
    package_version,
    source_hash,
)
from toolbank.sources.python.source import PythonSource
from toolbank.sources.thing import Thing


def _read_tools(config: PythonSource, _: Path) -> Collected:
    from toolbank.sources.python.apart import read_apart

    return read_apart(config)


def _content_id(config: PythonSource) -> str:
    """Version of the package, with a hash of one that may change under its version."""
    content = source_hash(config.package)[:16]
    return f"python:{package_version(config.package)}{content and '+'}{content}"


def _recognise(thing: Thing) -> PythonSource | None:
    is_name = all(part.isidentifier() for part in thing.text.split("."))
    if thing.path is None and is_name and package_places(thing.text):
        return PythonSource(package=thing.text)
    return None


KIND = SourceKind(
    PythonSource,
    _read_tools,
    _content_id,
    places=lambda config: package_places(config.package),
    recognise=_recognise,
    takes="the import name of an installed package",
)
