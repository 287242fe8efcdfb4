"""A hash of a description's file and of the files that it refers to, without parsing them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from urllib.parse import unquote_to_bytes

from toolbank.system.files import sha256_file

_REFERENCE = re.compile(
    rb"""\$ref["']?[ \t]*:[ \t]*(?:"([^"#\r\n]+)|'([^'#\r\n]+)|([^"'#\r\n,}\]]+))"""
)
_MOST_FILES = 5_000


def hash_files(spec: Path, root: Path | None) -> str:
    """The SHA-256 of a file and of those in its folder (or `root`) that it refers to, in hex.

    Raises:
        InputError: the file is missing, or can't be read.
    """
    spec = spec.expanduser()
    hashes = {spec.resolve(): sha256_file(spec)}
    folder = (root or spec.parent).resolve()
    waiting = [spec.resolve()]
    while waiting and len(hashes) < _MOST_FILES:
        file = waiting.pop()
        for other in _mentioned(file):
            if other not in hashes and other.is_relative_to(folder) and other.is_file():
                hashes[other] = sha256_file(other)
                waiting.append(other)
    if len(hashes) == 1:
        return hashes[spec.resolve()]
    told = "\n".join(sorted(hashes.values()))
    return hashlib.sha256(told.encode()).hexdigest()


def _mentioned(file: Path) -> list[Path]:
    """The files that a file's references may name, there or not."""
    found: set[Path] = set()
    for forms in set(_REFERENCE.findall(file.read_bytes())):
        said = b"".join(forms)
        name = unquote_to_bytes(said.replace(rb"\/", b"/").strip())
        try:
            found.add((file.parent / name.decode()).resolve())
        except (OSError, RuntimeError, ValueError):
            continue
    return sorted(found)
