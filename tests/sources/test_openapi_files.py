import json
import shutil

import pytest

from tests.corpus_files import CORPUS, check_collected
from tests.sources.openapi_specs import assert_sound, described, json_body, operation
from tests.sources.sphinx_server import SiteServer
from toolbank.sources.openapi import KIND
from toolbank.sources.openapi.settings import OpenApiSource

FILES = CORPUS / "openapi_files"


@pytest.fixture
def spec(tmp_path):
    """A description whose paths, parameters and schemas stand in files of their own."""
    read_as = shutil.ignore_patterns("*.tools.json")
    return shutil.copytree(FILES, tmp_path / "api", ignore=read_as) / "openapi.json"


def write(file, content):
    file.write_text(json.dumps(content), "utf-8")


def read(spec, **options):
    collected = KIND.read(OpenApiSource(spec=str(spec), **options), spec.parent)
    for tool in collected.tools:
        assert_sound(tool)
    return collected


def test_files_are_read_as_if_they_were_one(spec, update_corpus):
    check_collected(FILES / spec.name, read(spec), spec, update=update_corpus)


def test_a_change_of_any_file_is_one_of_the_content(spec):
    config = OpenApiSource(spec=str(spec))
    seen = {KIND.version(config)}
    for file in sorted(spec.parent.rglob("*.*")):
        before = file.read_bytes()
        file.write_bytes(before + b"\n")
        seen.add(KIND.version(config))
        file.write_bytes(before)
    assert len(seen) == 6
    (spec.parent / "other.json").write_text("{}")
    assert KIND.version(config) in seen


def test_paths_and_operations_of_other_files_refer_to_what_is_next_to_them(spec):
    folder = spec.parent / "parts"
    folder.mkdir()
    write(folder / "paths.json", {"/pets": {"post": {"$ref": "../parts/add.json#/it"}}})
    body = json_body({"$ref": "#/pet"})
    pet = {"type": "object", "properties": {"name": {"type": "string"}}}
    write(folder / "add.json", {"it": operation(requestBody=body), "pet": pet})
    write(spec, described({"$ref": "parts/paths.json"}))
    (tool,) = read(spec).tools
    assert [*tool.parameters["properties"]] == ["name"]


def test_files_outside_the_folder_are_named_and_not_read(spec):
    outside = spec.parent.parent / "secret.json"
    write(outside, {"type": "string", "description": "secret"})
    body = json_body({"properties": {"it": {"$ref": "../secret.json"}}})
    write(spec, described({"/pets": {"post": operation(requestBody=body)}}))
    collected = read(spec)
    (problem,) = collected.problems
    assert "../secret.json" in problem and "`root:`" in problem
    assert collected.tools[0].parameters["properties"] == {"it": {}}
    widened = read(spec, root=spec.parent.parent)
    assert not widened.problems
    assert widened.tools[0].parameters["$defs"]["secret"]["description"] == "secret"


def test_files_of_a_site_are_asked_for_once_and_read_as_those_of_a_folder(spec):
    (of_folder,) = read(spec).tools
    with SiteServer(spec.parent) as site:
        source = OpenApiSource(spec=f"{site.url}openapi.json")
        collected = KIND.read(source, spec.parent)
    (of_site,) = collected.tools
    assert not collected.problems
    assert of_site.parameters == of_folder.parameters
    assert of_site.output_schema == of_folder.output_schema
    assert sorted(site.asked) == [
        *("/openapi.json", "/parameters.json", "/paths/pets.yaml", "/schemas/Pet.json"),
        "/schemas/common.json",
    ]
