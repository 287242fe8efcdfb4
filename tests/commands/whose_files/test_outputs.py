"""Where commands write to by `--out`, and where they do not."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.commands.in_process import do, toolbank
from tests.commands.whose_files.conftest import ASKED
from tests.commands.whose_files.project import COMMANDS, read_by_others, refused, seen
from tests.tiny_models import tiny_encoder
from toolbank.publish.exports import EXPORTS

LABELS = """
def print_label(order): "Print the label of a parcel."
def void_label(label): "Void a label that was printed."
def find_label(order): "Find the label of an order."
def count_labels(day): "Count the labels of a day."
"""
SCOPE = (
    "base_url: https://example.org/\nobjects: {roles: [function, data]}\ntables: []\n"
)
OF_ALL_KINDS = """\
name: pp
sources: [{type: python, package: shipsdk_of_inputs}]
generate: {engine: rules, queries: 30, price: prices.json}
baselines: false
retrievers:
  - {type: bm25}
  - {type: descriptions, encoder: {model: ./encoder}}
  - type: decomposition
    decompose: {engine: openai, base_url: "http://127.0.0.1:9/", model: m, replies: replies.sqlite}
"""


@pytest.mark.parametrize("command", ["search", "evaluate"])
def test_a_file_is_written_over_where_that_is_said(project, command, monkeypatch):
    written = (*COMMANDS[command], "--out", "out.json")
    (project / "out.json").write_text("of an hour ago")
    refused(project, *written, told=["is there already", "--overwrite"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "none"))
    for _ in range(2):
        do(project, *written, "--overwrite")
    assert "ago" not in (project / "out.json").read_text()
    assert not (project / "none").exists()
    for place, told in {
        "asked.jsonl": "what is read",
        "hard.jsonl": "what is read",
        "link.jsonl": "what is read",
        "nowhere.jsonl": "a link",
        "data": "a folder",
        "runs/mine/recipe.yaml": "in the folder of a run",
    }.items():
        asked = () if command == "search" else ("--on", "asked.jsonl")
        refused(
            *(project, *COMMANDS[command], *asked, "--out", place, "--overwrite"),
            told=[told],
        )


@pytest.mark.parametrize(
    "command", [COMMANDS["search"], COMMANDS["evaluate"], ("evaluate", "runs/mine")]
)
def test_what_a_run_was_made_from_is_written_over_by_no_word(project, command):
    own = ("--set", "evaluate.on=[data/own.jsonl]", "--until", "sources")
    (project / "data/own.jsonl").write_text(ASKED)
    do(project, "run", "mine.yaml", *own)
    (project / "mine.yaml").rename(project / "renamed.yaml")
    for place in ("data/own.jsonl", "renamed.yaml"):
        written = ("--out", place, "--overwrite")
        refused(project, *command, *written, told=["what is read", place])


@pytest.fixture(scope="module")
def all_kinds(tmp_path_factory):
    """A project whose run reads files of every kind, and the names of these."""
    folder = tmp_path_factory.mktemp("all_kinds")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        for name, text in {
            "shipsdk_of_inputs/__init__.py": "from shipsdk_of_inputs._labels import *",
            "shipsdk_of_inputs/_labels.py": LABELS,
            "crawlers/shipsdk_of_inputs.yaml": SCOPE,
            "prices.json": "{}",
            "asked.jsonl": ASKED,
        }.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        tiny_encoder(folder / "encoder")
        began = ("init", "pp", "--package", "shipsdk_of_inputs", "--prompts")
        do(folder, *began)
        (folder / "pp.yaml").write_text(OF_ALL_KINDS)
        do(folder, "run", "pp.yaml", "--until", "retrievers")
        yield folder


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("search", "elsewhere"),
        ("evaluate", ""),
        pytest.param("search", "", marks=pytest.mark.slow),
        pytest.param("evaluate", "elsewhere", marks=pytest.mark.slow),
    ],
)
def test_no_kind_of_input_is_written_over(all_kinds, command, place, monkeypatch):
    here = all_kinds / place
    here.mkdir(exist_ok=True)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(all_kinds)])
    asked = "--queries" if command == "search" else "--on"
    before = seen(all_kinds)
    for name in (
        *("pp.yaml", "toolbank.schema.json", "prices.json"),
        *("prompts/write.j2", "prompts/polish.j2", "prompts/judge.j2"),
        *("prompts/asks.j2", "prompts/examples/generic.jsonl"),
        *("crawlers/shipsdk_of_inputs.yaml", "encoder/config.json"),
        "shipsdk_of_inputs/_labels.py",
    ):
        out = ("--out", os.path.relpath(all_kinds / name, here), "--overwrite")
        run = os.path.relpath(all_kinds / "runs/pp", here)
        done = toolbank(command, run, asked, all_kinds / "asked.jsonl", *out, cwd=here)
        assert (done.returncode, "what is read" in done.stderr) == (2, True), name
    assert seen(all_kinds) == before


def test_a_file_that_has_a_recipes_name_alone_is_written_over(project):
    (project / "other").mkdir()
    (project / "other/mine.yaml").write_text("of somebody else")
    out = ("--out", "other/mine.yaml", "--overwrite")
    do(project, *COMMANDS["search"], *out)
    assert "median" in (project / "other/mine.yaml").read_text()


@pytest.mark.parametrize("is_of_earlier_version", [False, True])
def test_a_recipe_that_was_edited_is_not_written_over(project, is_of_earlier_version):
    origin = project / "runs/mine/origin.json"
    if is_of_earlier_version:
        content = json.loads(origin.read_text())
        del content["inputs"]
        origin.write_text(json.dumps(content))
    with (project / "mine.yaml").open("a") as file:
        file.write("# edited\n")
    out = ("--out", "mine.yaml", "--overwrite")
    refused(project, *COMMANDS["search"], *out, told=["what is read"])
    do(project, "run", "mine.yaml", "--until", "sources")
    assert str(project / "mine.yaml") in json.loads(origin.read_text())["inputs"]


@pytest.mark.parametrize("command", ["search", "evaluate"])
def test_a_pipe_and_the_devices_may_be_written_to(project, command):
    to_pipe = (*COMMANDS[command], "--out")
    with read_by_others(project / "pipe") as reader:
        do(project, *to_pipe, "pipe")
        assert b"statistics.median" in os.read(reader, 100_000) or command != "search"
    assert (project / "pipe").is_fifo()
    do(project, *to_pipe, "/dev/null")
    full = toolbank(*to_pipe, "/dev/full", cwd=project)
    assert (full.returncode, "No space left" in full.stderr) == (1, True)


@pytest.mark.parametrize("to_file", [False, True])
def test_hits_go_where_the_shell_sends_them(project, to_file):
    command = [sys.executable, "-m", "toolbank", *COMMANDS["search"]]
    command += ["--out", "/dev/stdout"]
    path = project / "out.json"
    with path.open("w") as file:
        stdout = file if to_file else subprocess.PIPE
        done = subprocess.run(
            command, cwd=project, stdout=stdout, stderr=subprocess.PIPE, text=True
        )
    [line] = (path.read_text() if to_file else done.stdout).splitlines()
    assert "statistics.median" in json.loads(line)["tools"]


def test_the_root_and_the_home_are_no_folders_of_runs(project, home):
    for place, called in (("/", "root of the disk"), (home, "your home folder")):
        for command in ("run", "plan", "preview"):
            refused(project, command, "mine.yaml", "--out", place, told=[called])
        for form in EXPORTS.names:
            refused(
                *(project, "export", "runs/mine", "--format", form, "--out", place),
                told=[called],
            )


READ = ["what is read (asked.jsonl)", "another place"]
EVALUATED = "evaluate runs/mine --on asked.jsonl --out"
HITS = "runs/mine/hits/bm25.jsonl"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (f"{EVALUATED} asked.jsonl", ["asked.jsonl", *READ]),
        (f"{EVALUATED} link.jsonl", ["link.jsonl", *READ]),
        (f"{EVALUATED} hard.jsonl", ["hard.jsonl", *READ]),
        (f"{EVALUATED} data/../asked.jsonl", ["data/../asked.jsonl", *READ]),
        (f"{EVALUATED} nowhere/deep/h.jsonl", ["nowhere/deep: no such", "mkdir -p"]),
        (f"run mine.yaml --set evaluate.on=[{HITS}]", [HITS, "which this run writes"]),
        ("search runs/mine --queries none.jsonl --out h.jsonl", ["none.jsonl"]),
        ("export runs/mine --format jsonl --out asked.jsonl", ["asked.jsonl: a file"]),
    ],
)
def test_a_wrong_place_or_file_is_refused(project, command, told):
    # Before a model is loaded.
    if "none.jsonl" in command:
        shutil.rmtree(project / "runs/mine/models")
    refused(project, *command.split(), told=told)
