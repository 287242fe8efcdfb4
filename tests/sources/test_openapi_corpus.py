"""Descriptions of tests/corpus/openapi are read as expected there, others are refused."""

from __future__ import annotations

import pytest
import yaml

from tests.corpus_files import CORPUS, check_collected, corpus_files
from tests.sources.openapi_specs import assert_sound, described, operation, read
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
        ({"asyncapi": "3.0.0"}, "neither `openapi` nor `swagger`"),
        ([1], "neither `openapi` nor `swagger`"),
        (described({}), "pets.json#/paths: .*no operations"),
        ({"openapi": "3.1.0", "webhooks": {"a": {"post": {}}}}, "1: webhook"),
        (described({"/pets": {"get": 1}}), "1: operation that can't"),
        (described({"/pets": {"$ref": "#/x"}}), "the `.ref` of a path leads nowhere"),
    ],
)
def test_what_has_no_operations_is_refused_with_the_reason(tmp_path, description, said):
    with pytest.raises(InputError, match=said):
        read(tmp_path, description)


def test_a_page_for_people_is_refused(tmp_path):
    file = tmp_path / "openapi.json"
    file.write_text("<!DOCTYPE html><html></html>")
    with pytest.raises(InputError, match=r"openapi\.json: is a web page"):
        KIND.read(OpenApiSource(spec=str(file)), tmp_path)
