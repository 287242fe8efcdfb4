"""Operations of an HTTP API, described by OpenAPI or Swagger, as a source."""

import gc
import hashlib
import re
from pathlib import Path
from urllib.parse import urlsplit

from toolbank.sources.kind import Location, SourceKind, ToolCollection
from toolbank.sources.openapi.settings import OpenApiSource, hash_files
from toolbank.system.text import decode_json

_ADDRESS = re.compile(r"\.(json|ya?ml)$|/(openapi|swagger|api-docs)[^/]*$", re.I)
_IN_JSON = re.compile(rb'"(openapi|swagger)"\s*:\s*"?\d')
_NESTED = re.compile(rb"[{\[]")
_IN_YAML = re.compile(rb"""^["']?(openapi|swagger)["']?\s*:\s*["']?\d""", re.M)


def _read_tools(config: OpenApiSource, _: Path) -> ToolCollection:
    from toolbank.sources.openapi.reader import read_description

    # The garbage collector takes a fifth of the time, and finds nothing.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return read_description(config)
    finally:
        if was_enabled:
            gc.enable()


def _content_id(config: OpenApiSource) -> str:
    """The URL, or a hash of the file and of the files that it refers to."""
    if config.address:
        digest = hashlib.sha256(config.address.encode()).hexdigest()
        return f"{config.label}@{digest[:16]}"
    return f"{config.label}#{hash_files(Path(config.spec), config.root)}"


def _recognise(location: Location) -> OpenApiSource | None:
    """Recognise a description by its version, or by its URL."""
    is_file = location.path is not None and location.path.is_file()
    if not (is_file or location.is_url):
        return None
    has_typical_name = location.is_url and _ADDRESS.search(urlsplit(location.text).path)
    if not (has_typical_name or _says_version(location.content)):
        return None
    return OpenApiSource(spec=str(location.path or location.text))


def _says_version(content: bytes) -> bool:
    """Whether the outermost object has `openapi` or `swagger`."""
    content = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    if content[:1] in (b"[", b"<"):
        return False
    if content[:1] != b"{":
        return bool(_IN_YAML.search(content))
    if _IN_JSON.search(_NESTED.split(content[1:4096], maxsplit=1)[0]):
        return True
    if not _IN_JSON.search(content):
        return False
    # With sorted keys, the version comes late.
    try:
        said = decode_json(content)
    except ValueError:
        return False
    return "openapi" in said or "swagger" in said


KIND = SourceKind(
    OpenApiSource,
    _read_tools,
    _content_id,
    places=lambda config: () if config.address else (Path(config.spec),),
    recognise=_recognise,
    takes="an OpenAPI file or its URL",
)
"""Files are read each time, URLs again by `toolbank refresh`."""
