"""What stands for the content of an installed package, without importing it."""

import hashlib
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from toolbank.system.errors import InputError


def check_name(package: str) -> None:
    """Refuse what can't be imported by name.

    Raises:
        InputError: it is empty, relative, or not names joined by dots.
    """
    if not all(part.isidentifier() for part in package.split(".")):
        raise InputError(
            f"sources: {package!r} is no import name of a package; give one such as numpy "
            "or numpy.linalg."
        )


def package_version(package: str) -> str:
    """Name and version, "numpy==2.3.5", of the distribution that brings a package.

    The standard library has Python's version; what pip did not install has none.

    Raises:
        InputError: the name can't be one.
    """
    check_name(package)
    top = package.partition(".")[0]
    names = _distributions(tuple(sys.path)).get(top) or [top]
    try:
        return f"{package}=={metadata.version(names[0])}"
    except metadata.PackageNotFoundError:
        if top in sys.stdlib_module_names:
            return f"{package}=={'.'.join(map(str, sys.version_info[:3]))}"
        return package


def package_places(package: str) -> tuple[Path, ...]:
    """The folders of a package, or the file of a module; none where there is none.

    Raises:
        InputError: the name can't be one.
    """
    check_name(package)
    return tuple(_installed_places(package.partition(".")[0]))


def source_hash(package: str) -> str:
    """SHA-256, in hex, over the .py files of a package that may change under one version.

    Such is one that lies elsewhere than installed packages do, as an editable one does. ""
    for all others, and where there is no such package.
    """
    top = package.partition(".")[0]
    places = [] if top in sys.stdlib_module_names else _installed_places(top)
    if not places or all(map(_is_installed, places)):
        return ""
    content = hashlib.sha256()
    for place in places:
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            name = path.relative_to(place.parent).as_posix()
            content.update(f"{name}\0{path.stat().st_size}\0".encode())
            content.update(path.read_bytes())
    return content.hexdigest()


@cache
def _distributions(_: tuple[str, ...]) -> Mapping[str, list[str]]:
    """What brings each package that is found on a path; slow to gather."""
    return metadata.packages_distributions()


def _installed_places(top: str) -> list[Path]:
    """The folders of a package, or the file of a module."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    found = spec.submodule_search_locations or [spec.origin or ""]
    return [Path(place).resolve() for place in found if Path(place).exists()]


def _is_installed(place: Path) -> bool:
    homes = [*site.getsitepackages(), site.getusersitepackages()]
    homes += [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return any(place.is_relative_to(Path(home).resolve()) for home in homes)
