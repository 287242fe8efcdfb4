"""The README and the pages of docs/ keep up with the program."""

import ast
import re
import shlex
from pathlib import Path

import pytest
import typer

import toolbank
from toolbank.commands.app import load_command, make_app
from toolbank.commands.schema import describe_keys
from toolbank.config.yaml import parse_mapping
from toolbank.run.recipe import Recipe, recipe_schema

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))
}
ALL = "\n".join(PAGES.values())


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", ALL, re.DOTALL | re.MULTILINE)


def test_the_page_of_keys_is_what_the_program_writes():
    written = describe_keys(recipe_schema()) + "\n"
    assert PAGES["docs/recipe.md"] == written, (
        "write it anew: toolbank schema --markdown > docs/recipe.md"
    )


def test_every_key_is_described():
    assert not re.findall(r"^- `(\w+)`.*: $", PAGES["docs/recipe.md"], re.M)


COMMANDS = {
    name: load_command(name) for name in typer.main.get_command(make_app()).commands
}


def test_every_command_is_named():
    for name in COMMANDS:
        assert re.search(f"`{name}[ `]", PAGES["docs/run-folder.md"]), name


def test_the_help_of_all_commands_has_their_first_lines():
    for name, command in typer.main.get_command(make_app()).commands.items():
        assert command.short_help == COMMANDS[name].help.partition("\n")[0]


def test_every_command_of_an_example_can_be_given_so():
    seen = set()
    lines = re.findall(r"^    (?:\.venv/bin/)?toolbank (.+)", ALL, re.MULTILINE)
    for line in lines:
        name, *words = shlex.split(line, comments=True)
        command = COMMANDS[name]
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        options = {option for item in command.params for option in item.opts}
        given = {word for word in words if word.startswith("-")}
        assert given <= options, f"toolbank {name} {' '.join(words)}"
        seen.add(name)
    assert seen >= {"init", "plan", "preview", "run", "search", "crawl", "export"}


def test_every_link_leads_somewhere():
    for name, text in PAGES.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if target.startswith("http"):
                continue
            path, _, anchor = target.partition("#")
            file = (ROOT / name).parent / path if path else ROOT / name
            assert file.exists(), f"{name}: {target}"
            if anchor:
                headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.M)
                slugs = {
                    re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
                    for heading in headings
                }
                assert anchor in slugs, f"{name}: {target}"


RECIPES = [block for block in blocks("yaml") if "objects:" not in block]


@pytest.mark.parametrize("text", RECIPES, ids=lambda text: text.split("\n")[0])
def test_every_part_of_a_recipe_is_one(text):
    part, _ = parse_mapping(text, "page")
    base = {"name": "x", "sources": [{"type": "python", "package": "json"}]}
    if "dataset" in part:
        del base["sources"]
    Recipe.model_validate({**base, **part})


@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code.split("\n")[0])
def test_what_an_example_takes_of_toolbank_is_there(code):
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert node.value.id != "toolbank" or hasattr(toolbank, node.attr)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("toolbank"):
            exec(ast.unparse(node))
