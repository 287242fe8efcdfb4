"""Configuration of an OpenAPI description, and the hash of its files."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path, PurePath
from typing import Literal
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from pydantic import Field, field_validator

from toolbank.config.base import ADDRESS_OR_PATH
from toolbank.sources.kind import SourceConfig
from toolbank.system.files import sha256_file

_LONGEST_LABEL = 150
_ANY_API = {"api", "api-docs", "index", "openapi", "schema", "spec", "swagger"}
"""Names of files that do not name the API."""


class OpenApiSource(SourceConfig):
    """An OpenAPI 3.0, 3.1 or 3.2 or Swagger 2.0 description; each operation is a tool."""

    type: Literal["openapi"] = "openapi"
    spec: str = Field(
        min_length=1,
        description="JSON or YAML file, or its URL",
        json_schema_extra=ADDRESS_OR_PATH,
    )
    root: Path | None = Field(
        default=None,
        description="references to files may lead only into this folder; default: the folder of `spec`",
    )
    hosts: tuple[str, ...] = Field(
        default=(), description="other hosts that references may lead to"
    )
    private_addresses: bool = Field(
        default=False, description="allow addresses in private networks"
    )

    @field_validator("spec")
    @classmethod
    def _check_address(cls, value: str) -> str:
        """Refuse a password in a URL, without repeating it."""
        if "://" not in value:
            return value
        try:
            parts = urlsplit(value)
            _ = parts.port
        except ValueError:
            raise ValueError("not a valid address") from None
        if "@" in parts.netloc:
            raise ValueError("the address has a user name or password; remove it")
        return value

    @property
    def address(self) -> str:
        """The URL, or "" for a file."""
        return self.spec if "://" in self.spec else ""

    @property
    def place(self) -> Path | str:
        """The file, or the URL with its query."""
        return self.address or Path(self.spec)

    @property
    def label(self) -> str:
        """The file's name, or the URL without its query, which may be a secret."""
        name = self.name or PurePath(self.spec).name
        if self.address and not self.name:
            parts = urlsplit(self.address)
            name = f"{parts.scheme}://{parts.netloc}{parts.path}"
        return f"openapi:{_printable(name)[:_LONGEST_LABEL]}"

    @property
    def api_name(self) -> str:
        """The file's name without its ending, or the host; "" if it does not name the API."""
        if self.address:
            host = (urlsplit(self.address).hostname or "").removeprefix("www.")
            return host if "." in host and any(map(str.isalpha, host)) else ""
        stem = _printable(PurePath(self.spec).stem)
        return "" if stem.lower() in _ANY_API else stem


def _printable(text: str) -> str:
    return "".join(sign for sign in unquote(text) if sign.isprintable())


_REFERENCE = re.compile(
    rb"""\$ref["']?[ \t]*:[ \t]*(?:"([^"#\r\n]+)|'([^'#\r\n]+)|([^"'#\r\n,}\]]+))"""
)
_MOST_FILES = 5_000


def hash_files(spec: Path, root: Path | None) -> str:
    """Hash a file and the files in its folder (or `root`) that it refers to: SHA-256 in hex.

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
    text = "\n".join(sorted(hashes.values()))
    return hashlib.sha256(text.encode()).hexdigest()


def _mentioned(file: Path) -> list[Path]:
    """The files that the references of a file may name; they may not exist."""
    found: set[Path] = set()
    for forms in set(_REFERENCE.findall(file.read_bytes())):
        said = b"".join(forms)
        name = unquote_to_bytes(said.replace(rb"\/", b"/").strip())
        try:
            found.add((file.parent / name.decode()).resolve())
        except (OSError, RuntimeError, ValueError):
            continue
    return sorted(found)
