"""What the project is called on an index, and what users are told to install."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import toolbank
from toolbank.system import extras as distribution
from toolbank.system.extras import DISTRIBUTION, PUBLISHED, install_command

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOLDERS = ("docs", "toolbank", "tests", "recipes", "prompts", "crawlers", "benchmarks")
TEXTS = [
    path
    for place in ("README.md", "Makefile", "pyproject.toml", *FOLDERS)
    for path in (ROOT / place, *(ROOT / place).rglob("*"))
    if path.is_file() and path.suffix in {"", ".md", ".toml", ".py", ".yaml", ".html"}
]


def test_the_name_on_the_index_is_one_and_not_the_command():
    assert PROJECT["name"] == DISTRIBUTION != "toolbank"
    assert "toolbank" in PROJECT["scripts"]


# Ours as well, while the index doesn't have it.
TOLD = re.compile(
    r"pip3? (?:install|download)[^.;:|`\n]* [^\w\s]*tool[b]ank\b"
    + (f"(?!{DISTRIBUTION.removeprefix('toolbank')})" if PUBLISHED else "")
)


def test_no_text_has_anybody_install_the_package_of_somebody_else():
    assert len(TEXTS) > 100
    for path in TEXTS:
        # A string of Python's may go on in the next line.
        text = re.sub(r"[\"']\s*\n\s*f?[\"']", "", path.read_text(encoding="utf-8"))
        found = TOLD.search(text)
        assert not found, f"{path}: {found.group()}"


def test_every_extra_that_a_message_names_is_there():
    named = {
        extra
        for path in TEXTS
        for extra in re.findall(
            r"(?:install_command|advise_to_install)\([\"'](\w+)|pip install '\.\[(\w+)",
            path.read_text("utf-8"),
        )
    }
    extras = {extra for pair in named for extra in pair if extra}
    assert (
        {"vllm", "minilm", "all"} <= extras <= PROJECT["optional-dependencies"].keys()
    )
    assert "'.[vllm]'" in install_command("vllm")


def test_what_installs_it_is_told_by_whether_it_is_published(monkeypatch):
    for published, told in (
        (False, "pip install '.[vllm]' -c constraints-vllm.txt"),
        (True, f"pip install '{DISTRIBUTION}[vllm]'"),
    ):
        monkeypatch.setattr(distribution, "PUBLISHED", published)
        assert install_command("vllm") == told


def test_what_the_index_does_not_have_is_found_in_a_text():
    for name in ("toolbank", "'toolbank[vllm]'", DISTRIBUTION, f"'{DISTRIBUTION}[x]'"):
        is_ours = DISTRIBUTION in name
        assert bool(TOLD.search(f"pip install {name}")) != (is_ours and PUBLISHED)


def start(folder, *arguments):
    """The command, where Python looks into this folder first."""
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-m", "toolbank", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


@pytest.fixture
def theirs(tmp_path):
    """A folder where the other project is installed."""
    info = tmp_path / "toolbank-1.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: toolbank\nVersion: 1.1.0\n"
    )
    return tmp_path


def test_a_start_tells_of_the_other_project_where_that_is_installed_too(theirs):
    told = start(theirs, "--help").stderr
    assert told.count("\n") == 1
    assert "toolbank 1.1.0 is installed here too" in told
    assert "pip uninstall toolbank" in told


def test_without_it_nothing_is_told(tmp_path):
    assert not start(tmp_path, "--help").stderr


@pytest.fixture
def mixed(theirs):
    """That folder with our files in it as well, and one of theirs in the place of one of ours."""
    shutil.copytree(Path(toolbank.__file__).parent, theirs / "toolbank")
    (theirs / "toolbank" / "bank" / "records.py").write_text("class Engine: pass")
    record = "toolbank/__init__.py,,\ntoolbank/bank/records.py,,\n"
    (theirs / "toolbank-1.1.0.dist-info" / "RECORD").write_text(record)
    return theirs


@pytest.mark.parametrize(
    "text",
    [
        "class Engine: pass",
        "import a_package_that_they_need",
        "import toolbank.bank.records.more",
    ],
)
def test_where_it_has_taken_the_place_of_files_of_ours_that_is_all_that_is_told(
    text, mixed
):
    (mixed / "toolbank" / "bank" / "records.py").write_text(text)
    done = start(mixed, "search", "runs/mine", "the mean")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "toolbank 1.1.0 is installed here too" in done.stderr


def test_what_else_can_not_be_imported_is_told_beside_it(mixed):
    (mixed / "toolbank" / "commands" / "recipes.py").write_text("import nowhere_there")
    done = start(mixed, "recipes")
    assert done.returncode == 1
    assert "toolbank 1.1.0 is installed here too" in done.stderr
    assert "No module named 'nowhere_there'" in done.stderr
