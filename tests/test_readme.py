"""The README keeps up with the program."""

import asyncio
import re
from pathlib import Path

import yaml

from toolbank.generate.config import GenerateConfig
from toolbank.llm import create_engine
from toolbank.llm.chat import ChatRequest, JudgeTask
from toolbank.recipe import Recipe, recipe_schema

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


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_generation_of_the_readme_is_one_of_a_recipe():
    (text,) = [block for block in blocks("yaml") if block.startswith("generate:")]
    sources = {"name": "x", "sources": [{"type": "python", "package": "json"}]}
    recipe = Recipe.model_validate({**sources, **yaml.safe_load(text)})
    assert recipe.generate.price.output == 1.1


def test_the_engine_of_the_readme_is_one(tmp_path, monkeypatch):
    (code,) = [block for block in blocks("python") if "def make(" in block]
    (entry,) = blocks("toml")
    group, name, target = re.search(
        r'\[project\.entry-points\."(.*?)"\]\n(\w+) = "(.*?)"', entry
    ).groups()
    module = target.partition(":")[0].replace(".", "/")
    file = tmp_path / f"{module}.py"
    file.parent.mkdir()
    answers = "async def ask_my_model(messages, schema):\n    return 'an answer'\n\n"
    file.write_text(answers + code)
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: my-package\nVersion: 1\n"
    )
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")
    monkeypatch.syspath_prepend(tmp_path)
    engine = create_engine(GenerateConfig(engine="mine"), tools=(), seed=0)
    request = ChatRequest(0, "judge", (), {}, JudgeTask("", "", ""))
    assert asyncio.run(engine.answer(request)).text == "an answer"
