"""Sources of tools: a module or package per kind."""

from typing import Any

from toolbank.config.registry import Registry
from toolbank.sources.kind import SourceKind

SOURCES: Registry[SourceKind[Any]] = Registry(
    "source",
    "toolbank.sources",
    SourceKind,
    {
        "mcp": "toolbank.sources.mcp:KIND",
        "openapi": "toolbank.sources.openapi:KIND",
        "python": "toolbank.sources.python:KIND",
        "sphinx": "toolbank.sources.sphinx:KIND",
        # The last to recognise a file: it may have any form.
        "functions": "toolbank.sources.functions:KIND",
    },
)
