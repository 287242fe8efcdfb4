import json
import re
import subprocess
import sys
from importlib import metadata

import pytest
from jsonschema import Draft202012Validator

from tests.corpus_files import check_expected, corpus_files
from tests.sources.cases import read_cases
from toolbank.sources.python.package import read_package
from toolbank.sources.python.settings import (
    PythonSource,
    package_licence,
    package_version,
)
from toolbank.system.errors import InputError

INFO = ("left_out", "left_out_examples", "undocumented")


def read(package, options="{}"):
    """What is read of a package, or the error, without its name."""
    given = json.loads(options.replace("PKG", package))
    try:
        found = read_package(PythonSource.model_validate({"package": package, **given}))
    except InputError as error:
        return {"error": str(error)}
    for tool in found.tools:
        Draft202012Validator.check_schema(tool.parameters)
    info = {key: found.info[key] for key in INFO}
    tools = [tool.model_dump(exclude_defaults=True) for tool in found.tools]
    return {"tools": tools, **info, "problems": found.problems, "notes": found.notes}


@pytest.mark.parametrize("file", corpus_files("python"), ids=lambda file: file.stem)
def test_a_package_is_read_as_expected(
    file, make_package, tmp_path, monkeypatch, update_corpus
):
    files = read_cases(file)
    options = files.pop("options").splitlines()
    rules = files.pop("crawlers/PKG.yaml", None)
    package = make_package(files)
    if rules:
        (tmp_path / "crawlers").mkdir()
        rules_file = tmp_path / "crawlers" / f"{package}.yaml"
        rules_file.write_text(rules.replace("PKG", package))
    monkeypatch.chdir(tmp_path)
    found = {given: read(package, given) for given in options}
    expected = file.with_name(f"{file.stem}.tools.json")
    check_expected(expected, found, {package: "PKG"}, update=update_corpus)


@pytest.mark.parametrize(
    ("files", "kinds"),
    [
        (read_cases(corpus_files("python")[0].with_name("sdk.txt")), []),
        (read_cases(corpus_files("python")[0].with_name("sdk.txt")), ["class"]),
        (read_cases(corpus_files("python")[0].with_name("one-method.txt")), ["class"]),
    ],
)
def test_the_kinds_that_a_note_names_take_all(make_package, files, kinds):
    package = make_package(files)
    found = read(package, json.dumps({"kinds": kinds} if kinds else {}))
    note = str(found.get("notes", found.get("error")))
    named = note.partition("kinds: [")[2].partition("]")[0].split(", ")
    again = read(package, json.dumps({"kinds": named}))
    assert again["tools"] and "kinds: [" not in str(again["notes"])


def test_the_standard_library_can_be_read():
    found = read_package(PythonSource(package="json"))
    tools = {tool.name: tool for tool in found.tools}
    assert {"json.dumps", "json.loads", "json.JSONDecoder"} <= tools.keys()
    version = ".".join(map(str, sys.version_info[:3]))
    assert tools["json.dumps"].source == f"python:json=={version}"


def test_a_package_has_the_version_of_its_distribution():
    for package, brought_by in metadata.packages_distributions().items():
        if package.isidentifier() and package.lower() != brought_by[0].lower():
            version = metadata.version(brought_by[0])
            assert package_version(package) == f"{package}=={version}"


def test_every_process_reads_the_same():
    script = (
        "from toolbank.sources.python.settings import PythonSource\n"
        "from toolbank.sources.python.package import read_package\n"
        "print([t.model_dump() for t in read_package(PythonSource(package='argparse')).tools])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize(
    ("package", "licence"),
    [
        ("pydantic.types", "pydantic .*: MIT"),
        ("statistics", "statistics of Python .*: PSF-2.0"),
        # Of many lines in the metadata, and classified in one.
        ("scipy", "scipy .*: .*BSD.*"),
        ("no_such_package", ""),
    ],
)
def test_the_licence_of_a_package_is_that_of_its_metadata(package, licence):
    assert re.fullmatch(licence, package_licence(package))
