"""Which libraries a command loads: what is heavy would slow its start, or be missing there."""

import json
import subprocess
import sys
from importlib import metadata

from tests.search.packed.packs import write_pack
from tests.test_dependencies import asked_for, normal
from tests.world import write_recipe

HELP = {"platformdirs", "pydantic", "pydantic-core", "pyyaml", "typer"}
SEARCH = (HELP - {"platformdirs"}) | {"numpy", "safetensors"}
# aiohttp comes with the source of functions, which may have an address.
PLAN = "aiohttp jinja2 jsonschema jsonschema-rs numpy referencing tqdm w3lib yarl"
PLAN = HELP | {*PLAN.split()}


def libraries(*arguments, cwd, after=""):
    """What is loaded, of what the project asks for, by a command that runs in a new process."""
    code = (
        "import json, sys\n"
        "from toolbank.commands.cli import main\n"
        f"sys.argv = {['toolbank', *map(str, arguments)]!r}\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end\n"
        f"{after}\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    owners = metadata.packages_distributions()
    loaded = {
        normal(owner)
        for name in json.loads(done.stdout.splitlines()[-1])
        for owner in owners.get(name, ())
    }
    return loaded & asked_for() - {"toolbank-retrieval"}


def test_reading_a_recipe_loads_no_library_of_a_method(tmp_path):
    loaded = libraries("--help", cwd=tmp_path, after="import toolbank.run.recipe")
    assert loaded <= HELP


def test_a_plan_loads_nothing_that_trains_and_no_model_client(tmp_path):
    recipe = write_recipe(tmp_path, engine="openai", model="any", queries=30)
    verify = "assert not any('requests.verify.' in name for name in sys.modules)"
    assert libraries("plan", recipe, cwd=tmp_path, after=verify) <= PLAN


def test_a_search_in_a_packed_finder_loads_what_its_retriever_needs(tmp_path):
    write_pack(tmp_path / "pack")
    assert libraries("search", "pack", "lock my door", cwd=tmp_path) <= SEARCH
