"""`toolbank init`: a recipe to begin with."""

import json
import re

import pytest

from tests.commands.in_process import do, toolbank
from tests.commands.refusals import bad
from tests.sources.sphinx_server import SiteServer
from tests.world import write_dataset
from toolbank.run.recipe import load_recipe


def test_init_leaves_nothing_that_a_plan_takes_for_an_answer(tmp_path):
    url = "http://127.0.0.1:1/v1"
    do(tmp_path, "init", "mine", "--package", "json", "--base-url", url)
    assert "`model: NAME`" in do(tmp_path, "plan", "mine.yaml", code=2).stderr
    assert "there already" in do(tmp_path, "init", "mine", code=2).stderr
    assert "no sources yet" in do(tmp_path, "init", "bare").stdout
    assert "needs `sources`" in do(tmp_path, "plan", "bare.yaml", code=2).stderr
    for name in ("mine", "bare"):
        assert "your" not in re.sub("#.*", "", (tmp_path / f"{name}.yaml").read_text())


def test_the_adapted_encoder_is_used_unless_it_has_seen_the_api(tmp_path):
    def encoders(*source):
        path = tmp_path / f"{source[1].rpartition('/')[2]}.yaml"
        toolbank("init", path.stem, *source, cwd=tmp_path)
        retrievers = load_recipe(str(path)).recipe.retrievers
        return {e.model for r in retrievers for e in r.encoders}

    assert encoders("--package", "json") == {"toolbank"}
    assert encoders("--package", "numpy") == {"all-MiniLM-L6-v2"}
    assert encoders("--site", "boto3") == {"all-MiniLM-L6-v2"}
    pandas = encoders("--sphinx", "https://pandas.pydata.org/docs")
    assert pandas == {"all-MiniLM-L6-v2"}


def test_init_gives_editors_the_schema(tmp_path):
    told = toolbank("init", "mine", "--package", "json", cwd=tmp_path).stdout
    assert "Wrote toolbank.schema.json" in told
    first = (tmp_path / "mine.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=toolbank.schema.json"
    schema = tmp_path / "toolbank.schema.json"
    assert json.loads(schema.read_text()) == json.loads(
        toolbank("schema", cwd=tmp_path).stdout
    )
    schema.write_text("mine")
    told = toolbank("init", "other", "--package", "json", cwd=tmp_path).stdout
    assert "schema" not in told
    assert schema.read_text() == "mine"


def test_init_finds_the_format_of_a_dataset_by_its_files(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    done = do(tmp_path, "init", "mine", "--dataset", "data", code=2)
    assert "tools.jsonl: no such file" in done.stderr
    names = [f"t{n}" for n in range(6)]
    queries = [{"query": f"Do {n}?", "tools": [names[n % 6]]} for n in range(40)]
    write_dataset(data, names, queries)
    (tmp_path / "recipes").mkdir()
    do(tmp_path, *("init", "mine", "--dataset", "data", "--out", "recipes/mine.yaml"))
    told = toolbank("plan", "recipes/mine.yaml", cwd=tmp_path).stdout
    assert "Dataset: 6 tools" in told
    do(tmp_path, "init", "x", "--dataset", "data", "--package", "json", code=2)


def test_what_init_only_hints_at_may_be_switched_on(tmp_path):
    toolbank("init", "mine", "--package", "json", "--model", "m", cwd=tmp_path)
    path = tmp_path / "mine.yaml"
    text = path.read_text()
    for key in ("price", "budget", "concurrency"):
        assert f"  # {key}: " in text
        text = text.replace(f"  # {key}: ", f"  {key}: ")
    path.write_text(text)
    told = do(tmp_path, "plan", "mine.yaml").stdout
    assert "Asks: 4 for each of" in told
    assert told.count("  cost  ") == 2  # of requests, and of asks
    assert "cost     unknown" not in told


@pytest.mark.parametrize("model", [(), ("--model", "m")])
def test_init_has_a_quarter_of_the_requests_need_one_tool(tmp_path, model):
    toolbank("init", "mine", "--package", "json", *model, cwd=tmp_path)
    generate = load_recipe(str(tmp_path / "mine.yaml")).recipe.generate
    shares = generate.tools_per_query
    assert shares[1] >= sum(shares.values()) / 4
    assert generate.distinct_sets


def test_init_refuses_what_a_recipe_can_not_hold(recipe):
    bad(recipe, "init", "a b", code=2, told=["name"])
    url = ("--base-url", "http://me:secret@host/v1")
    bad(recipe, "init", "new", *url, code=2, told=["base_url"])
    assert not (recipe / "new.yaml").exists()


def test_init_looks_at_what_it_is_given(tmp_path):
    spec = {
        "openapi": "3.1.0",
        "paths": {"/pets": {"get": {"summary": "List pets."}, "put": 3}},
    }
    servers = {"mcpServers": {"a": {"command": "touch", "args": ["canary"]}}}
    for folder in ("api", "recipes"):
        (tmp_path / folder).mkdir()
    for name, content in (
        ("api/pets.json", spec),
        ("tools.json", [{"name": "forecast", "description": "Tell the weather."}]),
        ("servers.json", servers),
    ):
        (tmp_path / name).write_text(json.dumps(content))
    done = do(tmp_path, *("init", "zoo", "api/pets.json", "--out", "recipes/zoo.yaml"))
    assert "1 tool (operation 1)." in done.stdout
    assert "Left out: 1" in done.stdout
    assert "toolbank plan recipes/zoo.yaml" in done.stdout
    assert "spec: ../api/pets.json" in (tmp_path / "recipes" / "zoo.yaml").read_text()
    told = toolbank("tools", "recipes/zoo.yaml", "--json", cwd=tmp_path).stdout
    assert json.loads(told)["summary"] == "List pets."
    for thing, name, line in (
        ("api/pets.json", "pets", "spec: api/pets.json"),
        ("tools.json", "tools", "path: tools.json"),
        ("json", "json", "package: json"),
        ("servers.json", "servers", "config: servers.json"),
    ):
        do(tmp_path, "init", thing)
        assert f"  {line}\n" in (tmp_path / f"{name}.yaml").read_text()
    assert not (tmp_path / "canary").exists()


def test_init_writes_nothing_for_what_is_no_api(tmp_path):
    (tmp_path / "empty.json").write_text("[]")
    for given in (["x", "not/there.json"], ["not/there.json"], ["x", "empty.json"]):
        do(tmp_path, "init", *given, code=2)
        assert [path.name for path in tmp_path.iterdir()] == ["empty.json"]


def test_init_says_that_the_query_of_an_address_goes_into_the_recipe(tmp_path):
    (tmp_path / "site").mkdir()
    spec = {"openapi": "3.1.0", "paths": {"/a": {"get": {"summary": "Do."}}}}
    (tmp_path / "site/spec.json").write_text(json.dumps(spec))
    with SiteServer(tmp_path / "site") as site:
        plain = do(tmp_path, "init", "a", f"{site.url}spec.json")
        told = do(tmp_path, "init", "b", f"{site.url}spec.json?key=s3cr3t")
    assert "query" not in plain.stdout
    assert "a query, which stands in b.yaml" in told.stdout
    assert "s3cr3t" not in told.stdout
