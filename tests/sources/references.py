"""The real pages of NumPy 2.0.2, pandas 2.2.3 and Boto3 1.34.144, served on loopback."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.shared import shared
from tests.sources.sphinx_server import SiteServer
from toolbank.bank.records import Tool
from toolbank.sources.sphinx.tools import Crawl


@contextmanager
def serve(name: str, folder: Path) -> Iterator[SiteServer]:
    """Unpack a reference's pages into a folder and serve them."""
    with tarfile.open(shared(f"docs/{name}.tar.xz")) as pages:
        pages.extractall(folder, filter="data")
    with SiteServer(folder / name) as server:
        yield server


def tool(result: Crawl, name: str) -> Tool:
    """The tool of that name."""
    return next(tool for tool in result.tools if tool.name == name)
