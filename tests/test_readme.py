"""The README keeps up with the program."""

import asyncio
import re
import textwrap
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from tests.engines import create_engine
from toolbank.bank.split import SplitConfig
from toolbank.chat.chat import ChatRequest, JudgeTask
from toolbank.commands.plan.plan import describe_plan
from toolbank.encoders.config import EncoderConfig
from toolbank.evaluation.config import EvaluateConfig
from toolbank.generate.config import GenerateConfig
from toolbank.judge.config import JudgeConfig
from toolbank.recipe import Recipe, load_recipe, recipe_schema
from toolbank.report.config import ReportConfig
from toolbank.sources.sphinx.crawl_policy import CrawlPolicy

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
    from toolbank.commands.cli import app

    for command in app.registered_commands:
        assert f"`{command.callback.__name__}" in README, command.callback.__name__


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_generation_of_the_readme_is_one_of_a_recipe():
    (text,) = [block for block in blocks("yaml") if block.startswith("generate:")]
    sources = {"name": "x", "sources": [{"type": "python", "package": "json"}]}
    recipe = Recipe.model_validate({**sources, **yaml.safe_load(text)})
    assert recipe.generate.price.output == 1.1


def test_the_training_of_the_readme_is_a_whole_recipe():
    (text,) = [block for block in blocks("yaml") if "type: refiner" in block]
    recipe = Recipe.model_validate(yaml.safe_load(text))
    assert [config.label for config in recipe.retrievers][-3:] == [
        "tool2vec",
        "mlc",
        "refiner",
    ]


def test_the_engine_of_the_readme_is_one(tmp_path, monkeypatch):
    (code,) = [block for block in blocks("python") if "EngineKind(" in block]
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


@pytest.fixture
def written_recipe(tmp_path):
    """A recipe on NumPy with the generation of the README."""
    (text,) = [block for block in blocks("yaml") if block.startswith("generate:")]
    path = tmp_path / "numpy.yaml"
    path.write_text(f"name: numpy\nsources: [{{type: python, package: numpy}}]\n{text}")
    return load_recipe(str(path))


def test_the_plan_of_the_readme_is_that_of_its_recipe(written_recipe, tmp_path):
    if not version("numpy").startswith("2.3."):
        pytest.skip("the README's plan is that of NumPy 2.3")
    told = describe_plan(written_recipe, tmp_path / "out")
    planned = told[told.index("Generation:") : told.index("\n\nJudge:")]
    assert textwrap.indent(planned, "    ") in README


MODELS = {
    "generate": GenerateConfig(),
    "judge": JudgeConfig(),
    "split": SplitConfig(),
    "evaluate": EvaluateConfig(),
    "report": ReportConfig(),
    "encoder": EncoderConfig(),
    "crawl": CrawlPolicy(),
}


def told_defaults():
    """Section, key, and the default that the table tells, where it is a value and no prose."""
    for row in TABLE.splitlines():
        cells = [cell.strip() for cell in row.split(" |")]
        keys = re.findall(r"`([^`]+)`", cells[0])
        section = keys[0].partition(".")[0] if keys else ""
        if section not in MODELS or len(cells) < 2:
            continue
        names = [key.rpartition(".")[2] for key in keys]
        parts = [cells[1]] if len(names) == 1 else cells[1].split(", ")
        if len(parts) != len(names):
            continue
        for name, part in zip(names, parts, strict=True):
            value = part.removesuffix(" s").strip("`")
            if re.fullmatch(r"[\d., ]+|true|false|\w+", value):
                yield section, name, value


def test_the_defaults_of_the_reference_are_those_of_a_recipe():
    seen = 0
    for section, name, value in told_defaults():
        default = getattr(MODELS[section], name)
        if default is None or isinstance(default, BaseModel):
            # What a site is asked hangs on where it is.
            assert section == "crawl" or not value[0].isdigit(), name
            continue
        if isinstance(default, tuple):
            default = ", ".join(map(str, default))
        if isinstance(default, str) and not default:
            continue
        told = yaml.safe_load(value) if isinstance(default, int | float) else value
        assert told == default, f"{section}.{name}"
        seen += 1
    assert seen > 25
