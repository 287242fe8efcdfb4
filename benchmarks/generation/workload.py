"""The work: toolbank's recipe, and the same prompts as plain rows for the others."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from toolbank.bank.files import read_tools
from toolbank.requests.write.checks import Draft
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.prompts import WriterPrompts
from toolbank.requests.write.sampling import make_offers

ENTRY = ("-m", "toolbank")
TOOLBANK = (sys.executable, *ENTRY)
SEED = 0
_DOMAIN = "numpy"
_DRAFT = "@DRAFT@"

_RECIPE = f"""\
name: speed
domain: {_DOMAIN}
seed: {SEED}
sources:
  - type: python
    package: numpy
generate:
  engine: openai
  model: mock
"""


def write_recipe(folder: Path, command: Sequence[str] = TOOLBANK) -> Path:
    """A recipe on NumPy, and the run folder `sources` in which `command` collected its tools."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = folder / "speed.yaml"
    recipe.write_text(_RECIPE)
    subprocess.run(
        [*command, "run", str(recipe), "--until", "sources", "--out", folder / "sources"],
        check=True,
        stdout=sys.stderr,
        cwd=folder,
    )  # fmt: skip
    return recipe


def generation(
    recipe: Path,
    url: str,
    rows: int,
    in_flight: int,
    command: Sequence[str] = TOOLBANK,
    **more: object,
) -> tuple[Path, list[str]]:
    """A new run folder in which only the tools are collected, and the command that fills it.

    `more` are further keys of `generate`.
    """
    run = recipe.with_name("run")
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(recipe.with_name("sources"), run)
    settings = {"base_url": url, "queries": rows, "concurrency": in_flight, **more}
    return run, [
        *command,
        "generate",
        str(recipe),
        "--out",
        str(run),
        *(f"--set=generate.{key}={value}" for key, value in settings.items()),
    ]


def write_rows(folder: Path, rows: int) -> Path:
    """What the peers send: toolbank's own prompts, rendered beforehand.

    A line a row: `write`, and `polish_before` and `polish_after`, between which the answer to
    `write` goes.
    """
    tools = read_tools(folder / "sources" / "bank" / "tools.parquet")
    by_name = {tool.name: tool for tool in tools}
    config = GenerateConfig()
    offers = make_offers(tools, config, SEED)
    prompts = WriterPrompts(_DOMAIN, config, SEED)
    path = folder / f"rows-{rows}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            offer = offers.offer(number)
            assert offer is not None
            offered = [by_name[name] for name in offer.tools]
            write = prompts.write(number, offered, offer.at_most)
            draft = Draft(_DRAFT, (), "The second takes what the first one gives.")
            polish = prompts.polish(number, draft, offered[:2])
            before, after = polish.messages[0].content.split(_DRAFT)
            row = {
                "write": write.messages[0].content,
                "polish_before": before,
                "polish_after": after,
            }
            file.write(json.dumps(row) + "\n")
    return path
