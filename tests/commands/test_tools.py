"""`toolbank tools`: what an API gives, before anything is made of it."""

import json
import sys

import pytest

from tests.commands.in_process import do, toolbank
from tests.sources.sphinx_server import SiteServer
from tests.world import write_dataset, write_dataset_recipe
from toolbank.sources import SOURCES

SPEC = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "paths": {
        "/pets": {
            "get": {"operationId": "listPets", "summary": "List all pets."},
            "post": {
                "operationId": "makePet",
                "parameters": [{"name": "name", "in": "query", "schema": {}}],
            },
            "put": "no operation",
        }
    },
}
FUNCTIONS = [{"name": "forecast", "description": "Tell the weather."}, {"name": 3}]


@pytest.fixture
def spec(tmp_path):
    file = tmp_path / "pets.json"
    file.write_text(json.dumps(SPEC))
    return file


def names(done):
    return [json.loads(line)["name"] for line in done.stdout.splitlines()]


def test_each_tool_is_a_line_of_json_and_what_is_left_out_is_told_aside(tmp_path, spec):
    done = do(tmp_path, "tools", "pets.json", "--json")
    assert names(done) == ["listPets", "makePet"]
    assert json.loads(done.stdout.splitlines()[0])["call"]["path"] == "/pets"
    assert "put" in done.stderr


def test_people_see_what_is_missing(tmp_path, spec):
    told = toolbank("tools", "pets.json", cwd=tmp_path, COLUMNS="60").stdout
    listed, made, _, *counts = told.splitlines()
    assert listed == "listPets  operation  (no parameters) List all pets."
    assert made == "makePet   operation  (no description)"
    assert counts == [
        "2 tools (operation 2).",
        "Missing: no parameters: 1; no description: 1; parameters without a description: 1 "
        "of 1.",
    ]

    spec.write_text(spec.read_text().replace("List", f"List {'very ' * 20}many of"))
    first = do(tmp_path, "tools", "pets.json", COLUMNS="60").stdout.splitlines()[0]
    assert (len(first), first[-3:]) == (60, "...")


def test_lists_of_functions_packages_and_recipes_are_known(tmp_path, spec):
    (tmp_path / "tools.json").write_text(json.dumps(FUNCTIONS))
    done = toolbank("tools", "tools.json", "--json", cwd=tmp_path)
    assert names(done) == ["forecast"]
    assert "/1" in done.stderr
    assert "json.dumps" in names(toolbank("tools", "json", "--json", cwd=tmp_path))
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nsources:\n  - {type: openapi, spec: pets.json, prefix: pets}\n"
        "  - {type: functions, path: tools.json}\n"
    )
    done = toolbank("tools", "mine.yaml", "--json", cwd=tmp_path)
    assert names(done) == ["forecast", "pets/listPets", "pets/makePet"]


def test_a_run_shows_what_it_has_read(finished):
    done = do(finished, "tools", "runs/mine", "--json")
    [run] = (finished / "runs").iterdir()
    kept = json.loads((run / "bank" / "sources.json").read_text())
    assert len(names(done)) == kept["tools"]


def test_of_a_dataset_what_is_left_out_is_told(tmp_path):
    queries = [{"query": f"Do it {n}?", "tools": [n]} for n in "abz"]
    write_dataset(tmp_path / "data", "aab", queries)
    write_dataset_recipe(tmp_path, "mine")
    done = toolbank("tools", "mine.yaml", "--json", cwd=tmp_path)
    assert names(done) == ["a", "b"]
    assert "1 left out, tool: listed twice, such as a" in done.stderr


def test_what_can_not_be_parsed_is_told_once(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/__init__.py").write_text('def f(): "Do."')
    (tmp_path / "lib/broken.py").write_text("def broken(:\n")
    said = toolbank("tools", "lib", cwd=tmp_path).stderr.splitlines()
    assert len(said) == 1
    assert "can't be parsed, left out: lib/broken.py, line 1: invalid" in said[0]


def test_the_help_names_what_each_kind_of_source_takes(tmp_path):
    for command in ("init", "tools"):
        told = " ".join(toolbank(command, "--help", cwd=tmp_path).stdout.split())
        for name in SOURCES.names:
            assert SOURCES.load(name).takes in told


@pytest.mark.parametrize(
    ("given", "content", "said"),
    [
        ("nothing-there", None, "no such file, folder or package. Give one of these: "),
        ("notes.txt", "Buy milk.", "tools cannot be read from it"),
        ("broken.json", "{", "broken.json"),
        ("none.json", '{"openapi": "9.0", "paths": {}}', "none.json"),
        ("empty.json", "[]", "lists no function"),
    ],
)
def test_what_is_no_api_is_bad_input(tmp_path, given, content, said):
    if content is not None:
        (tmp_path / given).write_text(content)
    done = do(tmp_path, "tools", given, code=2)
    assert said in done.stderr
    assert not done.stdout


def test_a_command_is_started_after_the_users_word_alone(tmp_path):
    canary = tmp_path / "canary"
    script = tmp_path / "server.py"
    script.write_text(f"open({str(canary)!r}, 'w')")
    done = do(tmp_path, "tools", f"{sys.executable} {script}", code=2)
    assert "TOOLBANK_GRANTS" in done.stderr
    assert not canary.exists()


def test_a_run_keeps_why_something_was_left_out(tmp_path, spec):
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nsources: [{type: openapi, spec: pets.json}]\n"
        "generate: {engine: rules, queries: 5}\n"
    )
    read = toolbank("tools", "mine.yaml", cwd=tmp_path).stderr
    do(tmp_path, "run", "mine.yaml", "--until", "sources")
    kept = toolbank("tools", "runs/mine", cwd=tmp_path).stderr
    assert kept == read and "pets.json#/paths/~1pets/put" in kept


def test_what_an_address_gives_is_looked_at(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    with SiteServer(folder) as site:
        url = site.url.rstrip("/")
        for name in ("v3", "openapi.json"):
            (folder / name).write_text(json.dumps(SPEC))
            done = toolbank("tools", f"{url}/{name}", "--json", cwd=tmp_path)
            assert names(done) == ["listPets", "makePet"], done.stderr
        for name, text in {
            "page": "<!DOCTYPE html><p>Our API</p>",
            "docs": "<!DOCTYPE html><script>SwaggerUIBundle({ url: '/openapi.json', })</script>",
            "sphinx.html": "<!DOCTYPE html><a href='https://www.sphinx-doc.org'>Sphinx</a>",
            "note": "Our API",
        }.items():
            (folder / name).write_text(text)
        for name, said in (
            ("page", "is a web page (HTML or XML), not JSON or YAML."),
            ("docs", f"It links to {url}/openapi.json; give that."),
            ("sphinx.html", "no inventory there"),
            ("note", "nothing at this address"),
            ("gone", "HTTP status 404. Check the address. Give one of these: "),
            ("gone", "an MCP server's URL (https://HOST/mcp)"),
            ("gone.json", "HTTP status 404"),
        ):
            done = do(tmp_path, "tools", f"{url}/{name}", code=2)
            assert said in done.stderr


@pytest.mark.parametrize("chosen", ["recipe", "folder"])
def test_a_name_of_a_package_and_of_something_else_is_told(tmp_path, chosen):
    data = 'def rain(city): "Say if it rains."'
    if chosen == "recipe":
        (tmp_path / "recipes").mkdir()
        text = "name: rain\nsources: [{type: python, folder: here/rain}]"
        (tmp_path / "recipes" / "yaml.yaml").write_text(text)
        (tmp_path / "recipes" / "here" / "rain").mkdir(parents=True)
        (tmp_path / "recipes" / "here" / "rain" / "__init__.py").write_text(data)
    else:
        (tmp_path / "yaml").mkdir()
        (tmp_path / "yaml" / "__init__.py").write_text(data)
    done = do(tmp_path, "tools", "yaml", "--json")
    assert len(names(done)) == 1
    assert chosen in done.stderr
    assert "python:yaml" in done.stderr
    both = do(tmp_path, "tools", "python:yaml", "--json")
    assert "yaml.safe_load" in names(both)
    assert "give python:json" not in do(tmp_path, "tools", "json", "--json").stderr


def test_keys_of_a_recipe_can_be_set(tmp_path, spec):
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nsources: [{type: openapi, spec: pets.json}]\n"
    )
    changed = ("--json", "--set", "sources.0.prefix=shop")
    done = do(tmp_path, "tools", "mine.yaml", *changed)
    assert names(done) == ["shop/listPets", "shop/makePet"]
    refused = do(tmp_path, "tools", "pets.json", *changed, code=2)
    assert "pets.json is not a recipe" in refused.stderr
