"""Servers that several tests ask."""

import pytest

from tests.search.packed.packs import REQUESTS, TOOLS, write_calibrated_pack, write_pack
from tests.search.serve.servers import KEY, serving


@pytest.fixture(scope="package")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    write_pack(folder / "home", requests=REQUESTS)
    write_pack(folder / "letters", TOOLS[6:])
    with serving(folder / "home", f"post={folder / 'letters'}") as running:
        yield running


@pytest.fixture(scope="package")
def marking(tmp_path_factory):
    """A server of a calibrated finder, whose answers have `fits`."""
    folder = tmp_path_factory.mktemp("marking")
    write_calibrated_pack(folder)
    with serving(f"marking={folder}") as running:
        yield running


@pytest.fixture(scope="package")
def locked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("locked")
    write_pack(folder)
    with serving(f"home={folder}", "--host", "0.0.0.0", key=KEY) as running:
        running.host = "127.0.0.1"
        yield running
