"""A machine that only serves: the extra `serve` in an environment of its own."""

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.search.packed.packs import write_pack

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
HEAVY = "datasets fastapi pandas polars pyarrow scipy scrapy sentence-transformers"
HEAVY += " torch transformers"


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory):
    """The commands of a new environment with nothing but `.[serve]`."""
    folder = tmp_path_factory.mktemp("serving") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    constraints = ["-c", ROOT / "constraints.txt"]
    subprocess.run([*pip, *constraints, f"{ROOT}[serve]"], check=True)
    return folder / "bin"


def run(bin_folder, *arguments, folder):
    return subprocess.run(
        [bin_folder / "toolbank", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PATH": str(bin_folder), "HOME": str(folder)},
        timeout=120,
    )


def test_few_packages_come_with_it_and_none_that_trains_or_crawls(bin_folder):
    listed = subprocess.run(
        [bin_folder / "pip", "list", "--format", "json"],
        check=True,
        capture_output=True,
    )
    names = {one["name"].lower() for one in json.loads(listed.stdout)}
    assert not names & {*HEAVY.split()}
    assert {"onnxruntime", "tokenizers", "starlette", "uvicorn"} <= names
    assert len(names) < 45


def test_a_packed_finder_is_searched_and_served(bin_folder, tmp_path):
    write_pack(tmp_path / "finder")
    done = run(bin_folder, "search", "finder", "play a song", folder=tmp_path)
    assert "music.play" in done.stdout
    with subprocess.Popen(
        [bin_folder / "toolbank", "serve", "finder", "--port", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            address = re.search(r"http://\S+/", server.stdout.readline()).group()
            with urllib.request.urlopen(f"{address}search?q=play+a+song") as answer:
                hits = json.load(answer)["hits"]
        finally:
            server.terminate()
    assert hits[0]["name"] == "music.play"
