"""The real pages of NumPy 2.0.2, pandas 2.2.3 and Boto3 1.34.144, served on loopback."""

import json
import tarfile
from contextlib import contextmanager

import pytest
import yaml

from tests.shared import shared
from tests.sources.sphinx_server import SiteServer
from toolbank.config.assets import find_asset
from toolbank.sources.sphinx.crawl import crawl_site
from toolbank.sources.sphinx.settings import SphinxSource


@contextmanager
def serve(name, folder):
    with tarfile.open(shared(f"docs/{name}.tar.xz")) as pages:
        pages.extractall(folder, filter="data")
    with SiteServer(folder / name) as server:
        yield server


@contextmanager
def crawl_tables(name, folder, *tables):
    """Crawl what these pages of a reference list, in a folder with rules of its own."""
    shipped = find_asset("crawlers", f"{name}.yaml").path.read_text(encoding="utf-8")
    rules = {**yaml.safe_load(shipped), "tables": tables}
    (folder / "crawlers").mkdir()
    (folder / "crawlers" / f"{name}.yaml").write_text(json.dumps(rules))
    with serve(name, folder) as server, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        source = SphinxSource(site=name, base_url=server.url)
        yield crawl_site(source, folder / "cache")
