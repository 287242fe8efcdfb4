"""Python packages, installed or as a folder of source code, as a source of tools."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from toolbank.bank.records import Tool
from toolbank.config.explain import reading_content
from toolbank.sources.kind import Location, SourceKind, ToolCollection
from toolbank.sources.python.settings import (
    PythonSource,
    package_licence,
    package_places,
    package_version,
    source_hash,
)
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.extras import require_library

# Ends packages whose import or `repr` hangs; the largest packages take a minute.
_LONGEST = 600.0  # seconds

_PROGRAM = """
import json, signal, sys
if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
request = json.load(sys.stdin)
sys.path[:] = request["path"]
from toolbank.sources.python import answer
answer(request["source"])
"""


def read_apart(config: PythonSource) -> ToolCollection:
    """Run `read_package` in a new process of the same Python, on the same path.

    Importing a package changes it: sub-modules become attributes, and warnings are shown once.
    Its output goes to stderr.

    Raises:
        InputError: as `read_package`; or the package ends the process or takes more than ten
            minutes; or the extra that reads packages is missing.
    """
    require_library("numpydoc")
    request = {"path": sys.path, "source": config.model_dump(mode="json")}
    try:
        process = subprocess.run(  # noqa: S603 - this Python; the request goes to stdin
            [sys.executable, "-P", "-c", _PROGRAM],
            input=json.dumps(request).encode(),
            stdout=subprocess.PIPE,
            check=False,
            timeout=_LONGEST,
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(
            f"sources: reading the package {config.api_name} did not end within "
            f"{_LONGEST:,.0f} seconds: its import or the `repr` of a default value hangs. "
            "Name the module that has the tools (package: name.module)."
        ) from error
    try:
        result = json.loads(process.stdout)
    except ValueError as error:
        raise InputError(
            f"sources: reading the package {config.api_name} ended its process "
            f"(exit code {process.returncode}). Make `python -c 'import {config.api_name}'` "
            "work first."
        ) from error
    if refusal := result.get("refusal"):
        raise InputError(refusal)
    return ToolCollection(
        tuple(Tool.model_validate(tool) for tool in result["tools"]),
        result["info"],
        problems=tuple(result["problems"]),
        notes=tuple(result["notes"]),
    )


def answer(source: dict[str, Any]) -> None:
    """Read a package, write the result to stdout as JSON, and end the process.

    Threads of the package are not waited for.
    """
    from toolbank.sources.python.package import read_package

    out = os.dup(1)
    os.dup2(2, 1)
    config = PythonSource.model_validate(source)
    try:
        with reading_content(f"sources: {config.label}", "a source of the type python"):
            read = read_package(config)
        result = {
            "tools": [tool.model_dump() for tool in read.tools],
            "info": read.info,
            "problems": read.problems,
            "notes": read.notes,
        }
    except (ToolbankError, OSError) as error:
        result = {"refusal": str(error)}
    with os.fdopen(out, "wb") as file:
        file.write(json.dumps(result).encode())
    os._exit(0)


def _read_tools(config: PythonSource, _: Path) -> ToolCollection:
    if config.folder is not None:
        from toolbank.sources.python.folder import read_folder

        return read_folder(config, config.folder)

    return read_apart(config)


def _content_id(config: PythonSource) -> str:
    """Return the version, with a hash of the source if it may change under that version."""
    if config.folder is not None:
        from toolbank.sources.python.folder_files import hash_folder

        return f"{config.label}+{hash_folder(config.folder)[:16]}"
    package = config.api_name
    content = source_hash(package)[:16]
    return f"python:{package_version(package)}{content and '+'}{content}"


def _places(config: PythonSource) -> tuple[Path, ...]:
    if config.folder is not None:
        return (config.folder,)
    return package_places(config.api_name)


_LEAD = "python:"
"""Precedes the name of a package that is also that of a recipe or a folder."""


def _recognise(location: Location) -> PythonSource | None:
    if location.text and location.path is not None and location.path.is_dir():
        from toolbank.sources.python.folder_files import has_source

        return PythonSource(folder=location.path) if has_source(location.path) else None
    name = location.text.removeprefix(_LEAD)
    is_asked = name != location.text or location.path is None
    is_name = all(part.isidentifier() for part in name.split("."))
    if is_asked and is_name and package_places(name):
        return PythonSource(package=name)
    return None


KIND = SourceKind(
    PythonSource,
    _read_tools,
    _content_id,
    places=_places,
    licence=lambda config: "" if config.folder else package_licence(config.api_name),
    recognise=_recognise,
    takes="the import name of an installed package (python:NAME if there is a file, folder or "
    "recipe of that name), or a folder of Python source",
)
