"""An OpenAPI description that changes while a run lives."""

import json

from toolbank.run.recipe import load_recipe
from toolbank.run.refresh import refresh_run
from toolbank.run.run import run_recipe

NOUNS = ("orders", "letters", "returns", "prices", "gloves", "kettles")
VERBS = ("find", "total", "list", "merge", "paint")
NAMES = [f"{verb}_{noun}" for verb in VERBS for noun in NOUNS]
NEW = [f"weigh_{noun}" for noun in (*NOUNS, "stamps", "ropes", "lamps", "chairs")]
GONE, REWORDED = NAMES[:5], NAMES[10:15]


def spec(names, reworded=()):
    """A description with an operation for each name."""
    paths = {
        f"/customers/{{customer}}/{name}": {
            "get": {
                "operationId": name,
                "summary": f"{name.replace('_', ' the ').title()} of a customer"
                + (", oldest first" if name in reworded else ""),
                "parameters": [
                    {
                        "name": "customer",
                        "in": "path",
                        "required": True,
                        "schema": {"type": "string"},
                    }
                ],
                "responses": {"200": {"description": "Done."}},
            }
        }
        for name in names
    }
    info = {"title": "Shop", "version": "1"}
    return json.dumps({"openapi": "3.0.3", "info": info, "paths": paths})


def test_operations_come_go_and_are_reworded(tmp_path):
    file, out = tmp_path / "shop.json", tmp_path / "run"
    file.write_text(spec(NAMES))
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "name: mine\nsources: [{type: openapi, spec: shop.json}]\n"
        "generate: {engine: rules}\n"
    )
    run_recipe(load_recipe(str(recipe)), out, until="sources")
    file.write_text(spec([name for name in NAMES if name not in GONE] + NEW, REWORDED))
    changes = refresh_run(out).changes
    assert {tool.name for tool in changes.added} == {*NEW}
    assert {tool.name for tool in changes.removed} == {*GONE}
    assert changes.changed.keys() == {*REWORDED}
    assert all("summary" in fields for fields in changes.changed.values())
    assert not refresh_run(out).kept
