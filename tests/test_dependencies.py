"""What the project imports is what it asks for."""

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]


def asked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    names = [*project["dependencies"], *(n for e in extras.values() for n in e)]
    return {normal(re.match(r"[\w.-]+", name).group()) for name in names}


def imported():
    for path in sorted([*ROOT.glob("toolbank/**/*.py"), *ROOT.glob("tests/**/*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            else:
                continue
            yield from ((name.partition(".")[0], path) for name in names)


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_what_is_imported_is_asked_for():
    dependencies, owners = asked_for(), metadata.packages_distributions()
    own = {"toolbank", "tests", "benchmarks", "examples", *sys.stdlib_module_names}
    for module, path in imported():
        if module in own:
            continue
        names = {normal(name) for name in (module, *owners.get(module, ()))}
        assert names & dependencies, f"{path} imports {module}"


def test_what_is_asked_for_has_a_version_known_to_work():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {normal(line.partition("==")[0]) for line in lines if "==" in line}
    # vLLM needs a GPU, and other versions than all the rest.
    assert asked_for() <= {*pinned, "toolbank-retrieval", "vllm"}
