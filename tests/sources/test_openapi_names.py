"""Names of operations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.sources.openapi_specs import described, operation, read


def named(**said: Any) -> dict[str, Any]:
    return operation(**said)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("meta/root", "meta_root"),
        (
            "security-advisories/list-global-advisories",
            "security-advisories_list-global-advisories",
        ),
        ("drive.files.list", "drive.files.list"),
        ("List all pets!", "List_all_pets"),
        ("дать", "дать"),
        ("a" * 100, "a" * 100),
        ("", "get_pets_id"),
        ("/", "get_pets_id"),
        (7, "get_pets_id"),
    ],
)
def test_a_name_is_of_the_operation_id_or_else_of_the_route(
    tmp_path: Path, said: Any, name: str
) -> None:
    collected = read(
        tmp_path, described({"/pets/{id}": {"get": operation(operationId=said)}})
    )
    assert [tool.name for tool in collected.tools] == [name]


def test_operations_of_one_id_have_their_routes_behind_it(tmp_path: Path) -> None:
    paths = {
        "/pets": {
            "get": operation(operationId="list"),
            "put": operation(operationId="list"),
        },
        "/owners": {
            "get": operation(operationId="list"),
            "put": operation(operationId="set"),
        },
    }
    collected = read(tmp_path, described(paths))
    names = ["list_get_owners", "list_get_pets", "list_put_pets", "set"]
    assert [tool.name for tool in collected.tools] == names
    (note,) = collected.notes
    assert "the operationId 'list' is given more than once (3 times), first at" in note
    assert "pets.json#/paths/~1pets/get" in note
    backwards = read(tmp_path, described(dict(reversed(paths.items()))))
    assert [tool.name for tool in backwards.tools] == names


def test_ids_that_only_differ_in_signs_stay_apart(tmp_path: Path) -> None:
    paths = {
        "/a": {"get": operation(operationId="pets/list")},
        "/b": {"get": operation(operationId="pets_list")},
    }
    collected = read(tmp_path, described(paths))
    assert [tool.name for tool in collected.tools] == [
        "pets_list_get_a",
        "pets_list_get_b",
    ]


def test_routes_that_only_differ_in_signs_have_numbers(tmp_path: Path) -> None:
    paths = {
        path: {"get": operation()}
        for path in ("/a/b", "/a_b", "/a/{b}", "/a_b_get_a_b_2")
    }
    names = [tool.name for tool in read(tmp_path, described(paths)).tools]
    backwards = read(tmp_path, described(dict(reversed(paths.items())))).tools
    assert len(set(names)) == 4 and names == [tool.name for tool in backwards]
