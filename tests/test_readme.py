"""The README keeps up with the program."""

import re
from pathlib import Path

from toolbank.recipe import recipe_schema

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
TABLE = README.partition("## Recipe reference")[2].partition("\n## ")[0]


def keys_of(schema, root):
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
    for name, value in schema.get("properties", {}).items():
        yield name
        for part in (value, value.get("items", {})):
            for option in (part, *part.get("oneOf", []), *part.get("anyOf", [])):
                yield from keys_of(option, root) if "$ref" in option else ()


def test_every_key_of_a_recipe_is_in_the_reference():
    schema = recipe_schema()
    told = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", TABLE))))
    assert set(keys_of(schema, schema)) - told == set()


def test_every_command_is_named():
    from toolbank.cli import app

    for command in app.registered_commands:
        assert f"`{command.callback.__name__}" in README, command.callback.__name__
