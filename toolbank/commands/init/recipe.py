"""A first recipe for an API of one's own."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import ValidationError

from toolbank.config.assets import shipped
from toolbank.config.explain import explain
from toolbank.recipe import Recipe, recipe_schema
from toolbank.system.errors import InputError
from toolbank.system.files import write_text

_RECIPE = """\
# A recipe says all of a run. Check it with: toolbank plan {file}
# Every key, with its type and default: toolbank schema
name: {name}

# Where the tools come from. Several sources make one bank.
sources:
{source}

# Who writes the requests. The key is read from the environment variable OPENAI_API_KEY
# (another one: api_key_env). With `engine: rules` requests are written from the reference's
# own words: no model, no key, and less like a person's.
generate:
{generate}
  queries: 1000
{hints}
# Requests of your own users, labelled with the tools they need, are the best test there is.
# A line each: {{"query": "...", "tools": ["name", ...]}}
# evaluate:
#   on: [requests.jsonl]
"""

_HINTS = """\
  # Dollars a million tokens of your model, for `toolbank plan`, budgets and the report:
  # price: {input: 0.15, output: 0.60}
  # Where to end with what there is: calls, tokens, dollars, or minutes.
  # budget: {dollars: 20}
  # Calls in flight are as many as the endpoint takes (auto); a number is a bound.
  # concurrency: 32
"""


def write_recipe(
    path: Path,
    *,
    name: str,
    package: str | None = None,
    site: str | None = None,
    sphinx: str | None = None,
    base_url: str | None = None,
    model: str | None = None,
) -> Path:
    """Write a commented recipe; without a package or site, one for a package to fill in.

    `site` is a file of crawlers/, `sphinx` the address of a site that has none.

    Raises:
        InputError: the file is there already, more than one source is given, or one of the
            values can't stand in a recipe.
    """
    if path.exists():
        raise InputError(f"{path}: is there already. Give another with --out.")
    if sum(map(bool, (package, site, sphinx))) > 1:
        raise InputError(
            "Give one of --package, --site and --sphinx; put a second source into the file."
        )
    if site:
        source = {"type": "sphinx", "site": site}
    elif sphinx:
        source = {"type": "sphinx", "base_url": sphinx}
    else:
        source = {"type": "python", "package": package or "your_package"}
    if base_url or model:
        generate = {
            "engine": "openai",
            "base_url": base_url or "https://api.openai.com/v1",
            "model": model or "your-model",
        }
    else:
        generate = {"engine": "rules"}
    text = _RECIPE.format(
        file=path,
        name=_scalar(name),
        source=_indented([source], 2),
        generate=_indented(generate, 2),
        hints=_HINTS if base_url or model else "",
    )
    try:
        Recipe.model_validate(yaml.safe_load(text))
    except ValidationError as error:
        raise InputError(explain(error, recipe_schema(), "init", {}, ())) from error
    write_text(path, text)
    return path


def copy_prompts(folder: Path) -> list[Path]:
    """Copy the prompt templates and examples that are not there yet into `folder`."""
    copied = []
    for origin in sorted(shipped("prompts").rglob("*")):
        target = folder / origin.relative_to(shipped("prompts"))
        if origin.is_file() and not target.exists():
            write_text(target, origin.read_text(encoding="utf-8"))
            copied.append(target)
    return copied


def _indented(value: object, spaces: int) -> str:
    text = yaml.safe_dump(value, sort_keys=False).rstrip()
    return "\n".join(" " * spaces + line for line in text.splitlines())


def _scalar(text: str) -> str:
    return str(yaml.safe_dump(text)).removesuffix("\n...\n").strip()
