"""The workflow of docs/ci.md is valid YAML whose toolbank commands exist."""

import re
import shlex
from pathlib import Path

import typer
import yaml

from toolbank.commands.app import load_command, make_app

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "ci.md").read_text("utf-8")
COMMANDS = typer.main.get_command(make_app()).commands


def test_the_workflow_gives_options_that_there_are():
    [text] = re.findall(r"^```yml\n(.*?)^```", PAGE, re.M | re.S)
    # YAML 1.1 reads the key `on` as true.
    workflow = yaml.safe_load(text.replace("\non:", '\n"on":'))
    assert {*workflow["on"]} == {"push", "pull_request"}
    steps = workflow["jobs"]["evaluate"]["steps"]
    scripts = "\n".join(step.get("run", "") for step in steps)
    seen = set()
    for line in re.findall(r"^\s*toolbank (.+)", scripts, re.M):
        name, *words = shlex.split(line.partition(" > ")[0])
        assert name in COMMANDS
        known = {option for item in load_command(name).params for option in item.opts}
        assert {word for word in words if word.startswith("--")} <= known
        seen.add(name)
    assert seen == {"tools", "run", "evaluate"}
    assert all(("uses" in step) != ("run" in step) for step in steps)
