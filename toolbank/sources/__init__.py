"""Where tools come from: the kinds of sources, each a file or folder of its own."""

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
        # Asked last what a file is: it may have any form.
        "functions": "toolbank.sources.functions:KIND",
    },
)
