"""An installed package or a folder of source, as a kind of source."""

from pathlib import Path

from toolbank.sources.kind import Collected, SourceKind
from toolbank.sources.location import Location
from toolbank.sources.python.installed import (
    package_places,
    package_version,
    source_hash,
)
from toolbank.sources.python.source import PythonSource


def _read_tools(config: PythonSource, _: Path) -> Collected:
    if config.folder is not None:
        from toolbank.sources.python.folder.read import read_folder

        return read_folder(config, config.folder)
    from toolbank.sources.python.apart import read_apart

    return read_apart(config)


def _content_id(config: PythonSource) -> str:
    """Version of the package, with a hash of one that may change under its version; or a hash."""
    if config.folder is not None:
        from toolbank.sources.python.folder.files import hash_folder

        return f"{config.label}+{hash_folder(config.folder)[:16]}"
    package = config.api_name
    content = source_hash(package)[:16]
    return f"python:{package_version(package)}{content and '+'}{content}"


def _places(config: PythonSource) -> tuple[Path, ...]:
    if config.folder is not None:
        return (config.folder,)
    return package_places(config.api_name)


def _recognise(location: Location) -> PythonSource | None:
    if location.text and location.path is not None and location.path.is_dir():
        from toolbank.sources.python.folder.files import has_source

        return PythonSource(folder=location.path) if has_source(location.path) else None
    is_name = all(part.isidentifier() for part in location.text.split("."))
    if location.path is None and is_name and package_places(location.text):
        return PythonSource(package=location.text)
    return None


KIND = SourceKind(
    PythonSource,
    _read_tools,
    _content_id,
    places=_places,
    recognise=_recognise,
    takes="the import name of an installed package, or a folder of Python source",
)
