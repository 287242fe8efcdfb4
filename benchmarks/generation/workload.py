"""The work: toolbank's recipe, and the same prompts as plain rows for the others."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from toolbank.bank.files import read_tools
from toolbank.generate.config import GenerateConfig
from toolbank.generate.prompts import Prompts
from toolbank.generate.replies import Draft
from toolbank.generate.sampling import make_offers

TOOLBANK = [sys.executable, "-c", "from toolbank.commands.cli import main; main()"]
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


def write_recipe(folder: Path) -> Path:
    """A recipe on NumPy, and the run folder `sources` in which its tools are collected."""
    recipe = folder / "speed.yaml"
    recipe.write_text(_RECIPE)
    subprocess.run(
        [*TOOLBANK, "run", str(recipe), "--until", "sources", "--out", folder / "sources"],
        check=True,
        stdout=sys.stderr,
    )  # fmt: skip
    return recipe


def fresh_run(folder: Path) -> Path:
    """A run folder in which the tools are collected and nothing is written."""
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(folder / "sources", run)
    return run


def write_rows(folder: Path, rows: int) -> Path:
    """What the peers send: toolbank's own prompts, rendered beforehand.

    A line a row: `write`, and `polish_before` and `polish_after`, between which the answer to
    `write` goes.
    """
    tools = read_tools(folder / "sources" / "bank" / "tools.parquet")
    by_name = {tool.name: tool for tool in tools}
    config = GenerateConfig()
    offers = make_offers(list(by_name), config, SEED)
    prompts = Prompts(_DOMAIN, config, SEED)
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
