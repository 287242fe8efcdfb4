import json
from functools import partial

import pytest
import yaml

from tests.corpus_files import CORPUS, check_collected, corpus_files
from tests.sources.openapi_specs import assert_sound, described, operation, read
from tests.sources.sphinx_server import SiteServer
from toolbank.bank.records import HttpCall
from toolbank.run.recipe import load_recipe
from toolbank.sources.collect import recognise
from toolbank.sources.functions import FunctionsSource
from toolbank.sources.openapi import KIND
from toolbank.sources.openapi.settings import OpenApiSource
from toolbank.system.errors import InputError

GET = {"/pets": {"get": operation()}}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("file", corpus_files("openapi"), ids=lambda file: file.name)
def test_a_description_is_read_as_expected(file, tmp_path, update_corpus):
    collected = KIND.read(OpenApiSource(spec=str(file)), tmp_path)
    for tool in collected.tools:
        assert_sound(tool)
    check_collected(file, collected, file, update=update_corpus)


def test_names_do_not_depend_on_the_order_of_paths(tmp_path):
    text = (CORPUS / "openapi" / "names.yaml").read_text("utf-8")
    description = yaml.safe_load(text)
    paths = description["paths"]
    first = read(tmp_path, description)
    second = read(tmp_path, {**description, "paths": dict(reversed(paths.items()))})
    assert [t.name for t in second.tools] == [t.name for t in first.tools]


@pytest.mark.parametrize("version", ["3.0.0", "3.1.2", "3.2.0", "3"])
def test_every_version_is_read_without_a_note(tmp_path, version):
    collected = read(tmp_path, described(GET, openapi=version))
    assert len(collected.tools) == 1 and not collected.notes


@pytest.mark.parametrize(
    ("description", "said"),
    [
        (described(GET, openapi="4.0.0"), "pets.json#/openapi: .*'4.0.0'"),
        ({"swagger": "1.2", "paths": GET}, "pets.json#/swagger: .*'1.2'"),
        ({"asyncapi": "3.0.0"}, "looks like AsyncAPI"),
        ([1], "a list"),
        (described({}), "pets.json#/paths: .*no operations"),
        ({"openapi": "3.1.0", "webhooks": {"a": {"post": {}}}}, "1: webhook"),
        (described({"/pets": {"get": 1}}), "1: operation that can't"),
        (described({"/pets": {"$ref": "#/x"}}), "the `.ref` of a path leads nowhere"),
    ],
)
def test_what_has_no_operations_is_refused_with_the_reason(tmp_path, description, said):
    with pytest.raises(InputError, match=said):
        read(tmp_path, description)


def test_a_description_at_an_address_has_its_servers_there(tmp_path):
    said = described({"/pets": {"$ref": "pets.json#/pets"}}, servers=[{"url": "../v1"}])
    (tmp_path / "openapi.json").write_text(json.dumps(said))
    (tmp_path / "pets.json").write_text(json.dumps({"pets": {"get": operation()}}))
    with SiteServer(tmp_path) as site:
        config = OpenApiSource(spec=f"{site.url}openapi.json?token=secret")
        collected = KIND.read(config, tmp_path)
    (tool,) = collected.tools
    assert isinstance(tool.call, HttpCall) and tool.call.server == f"{site.url}v1"
    assert config.label == f"openapi:{site.url}openapi.json"
    said_of_it = [KIND.version(config), str(collected), config.label]
    assert not any("secret" in text for text in said_of_it)


def test_a_password_in_a_recipe_or_on_the_command_line_is_not_repeated(tmp_path):
    address = "https://me:hunter2@pets.example/openapi.json"
    file = tmp_path / "r.yaml"
    file.write_text(f"name: pets\nsources: [{{type: openapi, spec: '{address}'}}]\n")
    for refused in (partial(load_recipe, str(file)), partial(recognise, address)):
        with pytest.raises(InputError, match="user name or password") as error:
            refused()
        assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("address", ["http://[", "https://", "https://a.example:x/"])
def test_what_looks_like_an_address_and_is_none_is_refused(address):
    with pytest.raises(InputError, match="host or port"):
        recognise(address)
    if address != "https://":
        with pytest.raises(ValueError, match="not a valid address"):
            OpenApiSource(spec=address)


def test_what_a_recipe_names_is_of_its_folder(tmp_path):
    recipe = tmp_path / "r.yaml"
    spec = "{type: openapi, spec: pets.json}, {type: openapi, spec: 'https://a.example/b.json'}"
    recipe.write_text(f"name: pets\nsources: [{spec}]\n")
    file, address = load_recipe(str(recipe)).recipe.sources
    assert file.spec == str(tmp_path / "pets.json")
    assert address.spec == "https://a.example/b.json"
    assert (file.label, address.label) == (
        "openapi:pets.json",
        "openapi:https://a.example/b.json",
    )
    assert (file.api_name, address.api_name) == ("pets", "a.example")


SAID = {"components": {"x": ["{"] * 2000}, "info": {}, "openapi": "3.1.0"}
DEEPER = {"properties": {"like": {"default": {"openapi": "3.0"}}}}
FUNCTION = {"name": "convert", "parameters": DEEPER}


@pytest.mark.parametrize(
    ("text", "is_description"),
    [
        (json.dumps({"openapi": "3.1.0", "info": {}}), True),
        (json.dumps(SAID), True),
        (f"\ufeff {json.dumps(SAID, indent=2)}", True),
        ("components:\n  x: 1\nswagger: '2.0'\n", True),
        *((json.dumps([FUNCTION], indent=n), False) for n in (None, 0, 2)),
        *((json.dumps({"tools": [FUNCTION]}, indent=n), False) for n in (None, 0, 2)),
    ],
)
def test_an_outermost_version_makes_a_description(tmp_path, text, is_description):
    file = tmp_path / "any.json"
    file.write_text(text, encoding="utf-8")
    description, functions = OpenApiSource(spec=str(file)), FunctionsSource(path=file)
    assert recognise(str(file)) == (description if is_description else functions)
