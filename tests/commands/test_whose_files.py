"""No command writes over what is the user's, and no recipe over the results of another."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.commands.test_cli import toolbank
from tests.small_disk import small_disk
from tests.world import write_recipe
from toolbank.export.export import FORMATS
from toolbank.search import load
from toolbank.system.errors import ToolbankError

BY_RULES = {"engine": "rules", "queries": 30}
SMALL = """\
name: small
sources: [{type: python, package: json}]
generate: {engine: rules, queries: 3}
retrievers: [{type: bm25}]
baselines: false
"""
ASKED = '{"query": "middle value", "tools": ["statistics.median"]}\n'


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    """A home folder of the tests' own."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "diary.txt").write_text("mine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv("XDG_CACHE_HOME", str(folder / ".cache"))
        yield folder


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A project of a user: recipes, data, links, and a run."""
    folder = tmp_path_factory.mktemp("world") / "project"
    folder.mkdir()
    recipe = Path(write_recipe(folder, **BY_RULES))
    done = toolbank("run", "mine.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "small.yaml").write_text(SMALL)
    by_hand = "# My own words.\n" + recipe.read_text()
    texts = {
        "recipe.yaml": by_hand,
        "asked.jsonl": ASKED,
        "report.html": "<p>mine",
        "data/tools.jsonl": "{}\n",
        "data/deep/functions.json": "[]",
        "byhand/recipe.yaml": by_hand,
        "stages/recipe.yaml": by_hand,
        "stages/stages.json": '{"first": {"name": "mine"}}',
        "hidden/.keep": "",
        "locked/.lock": "mine",
        "prompts/write.jinja": "mine",
        "crawled/rules.yaml": "mine",
        "crawled/cache/notes.txt": "mine",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "empty").mkdir()
    for name, target in {
        "link.jsonl": "asked.jsonl",
        "nowhere.jsonl": "missing.jsonl",
        "linked": "data",
        "loop": "loop",
        "runs/linked": "../empty",
    }.items():
        (folder / name).symlink_to(target)
    os.link(folder / "asked.jsonl", folder / "hard.jsonl")
    os.mkfifo(folder / "pipe")
    return folder


def seen(folder):
    """What a user would miss: every path with what it holds."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            found[name] = path.read_bytes()
        elif not path.is_dir():
            found[name] = "no file"
    return found


COMMANDS = {
    "run": ("run", "small.yaml", "--until", "sources"),
    "generate": ("generate", "data/../small.yaml"),
    "other": ("run", "small.yaml", "--set", "name=other", "--until", "sources"),
    "plan": ("plan", "small.yaml"),
    "preview": ("preview", "small.yaml", "--count", "1"),
    "search": ("search", "runs/mine", "--queries", "asked.jsonl"),
    "evaluate": ("evaluate", "runs/mine", "--on", "asked.jsonl"),
    "init": ("init", "new", "--package", "json", "--prompts"),
    "train": ("train", "small.yaml"),
    "judge": ("judge", "small.yaml"),
    "replace": (
        "run",
        "small.yaml",
        "--set",
        "seed=7",
        "--replace",
        "--until",
        "sources",
    ),
    "crawl": ("crawl", "--sphinx", "http://127.0.0.1:9/"),
    **{form: ("export", "runs/mine", "--format", form) for form in FORMATS},
}
PLACES = (
    *(".", "/", "..", "~", "empty", "new", "new/deep", "data", "data/deep", "linked"),
    *("recipe.yaml", "mine.yaml", "asked.jsonl", "link.jsonl", "hard.jsonl", "loop"),
    *("nowhere.jsonl", "pipe", "data/tools.jsonl", "linked/tools.jsonl", "byhand"),
    *("byhand/recipe.yaml", "stages", "hidden", "locked", "prompts", "crawled"),
    *("crawled/rules.yaml", "report.html", "runs", "runs/linked", "runs/new"),
    *("data/../asked.jsonl", "runs/../recipe.yaml", "prompts/write.jinja"),
    *("runs/mine/bank", "runs/mine/recipe.yaml", "runs/mine/new.json", "out.json"),
    *("missing.jsonl", "locked/.lock", "asked.jsonl/deep", "empty/deep/deeper"),
)


@pytest.fixture
def project(world, tmp_path):
    return fresh(world, tmp_path)


def fresh(world, folder):
    place = folder / "project"
    done = subprocess.run(["cp", "-a", world, place], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return place


@contextmanager
def read_by_others(pipe):
    """Have somebody read a pipe, without whom whoever writes to it waits."""
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        yield reader
    finally:
        os.close(reader)


def act(command, place, cwd):
    """Do it to a place; gives what a command ends with, or the kind of error that Python has."""
    place = os.environ["HOME"] if place == "~" else place
    if command == "save":
        return save(cwd, place)
    if command == "show":
        return toolbank("show", place, cwd=cwd)
    return toolbank(*COMMANDS[command], "--out", place, cwd=cwd)


def save(project, place):
    finder = load(project / "runs/mine")
    try:
        finder.save(project / place)
    except ToolbankError as error:
        return subprocess.CompletedProcess("save", 2, "", str(error))
    return subprocess.CompletedProcess("save", 0, "", "")


STEPS = st.tuples(
    st.sampled_from([*sorted(COMMANDS), "save", "show"]), st.sampled_from(PLACES)
)


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(STEPS, min_size=1, max_size=4))
@example([("save", "data"), ("save", "runs/mine/bank"), ("save", "runs/linked")])
@example([("replace", "byhand"), ("train", "stages"), ("judge", "hidden")])
@example([("run", "."), ("crawl", "loop")])
@example([("search", "asked.jsonl"), ("evaluate", "hard.jsonl")])
@example([("run", "runs/new"), ("jsonl", "runs/new"), ("search", "runs/new/h.jsonl")])
def test_no_file_of_the_users_ever_changes(world, home, tmp_path_factory, steps):
    project = fresh(world, tmp_path_factory.mktemp("one"))
    before, of_home = seen(project), (home / "diary.txt").read_text()
    for command, place in steps:
        with read_by_others(project / "pipe"):
            done = act(command, place, project)
        assert done.returncode in (0, 1, 2), done.stderr
        assert "Traceback" not in done.stderr
        after = seen(project)
        assert {name: after.get(name) for name in before} == before, (command, place)
    assert (home / "diary.txt").read_text() == of_home
    assert {path.name for path in home.iterdir()} <= {"diary.txt", ".cache"}
    shutil.rmtree(project)


@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.sampled_from(["run", "generate", "search", "evaluate", "jsonl", "toolbank"]),
    st.data(),
)
def test_what_was_edited_since_is_not_lost(world, tmp_path_factory, command, data):
    project = fresh(world, tmp_path_factory.mktemp("one"))
    before = set(seen(project))
    assert act(command, "out.json", project).returncode == 0
    written = sorted(set(seen(project)) - before)
    accounts = (
        ".lock",
        "journal.",
        "stages.json",
        "origin.json",
        "toolbank-export.json",
    )
    own = [name for name in written if not any(part in name for part in accounts)]
    edited = data.draw(st.sampled_from(own))
    mine = b"edited by hand\n"
    if edited.endswith("recipe.yaml"):
        mine = (project / edited).read_bytes() + b"# edited by hand\n"
    (project / edited).write_bytes(mine)
    act(command, "out.json", project)
    assert mine in seen(project).values()


@pytest.mark.parametrize("command", ["save", "jsonl", "run"])
def test_what_was_left_in_a_folder_is_replaced(project, command):
    for _ in range(2):
        done = act(command, "out.json", project)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["search", "evaluate"])
def test_a_file_is_written_over_where_that_is_said(project, command, monkeypatch):
    written = (*COMMANDS[command], "--out", "out.json")
    (project / "out.json").write_text("of an hour ago")
    refused(project, *written, told=["is there already", "--overwrite"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "none"))
    for _ in range(2):
        done = toolbank(*written, "--overwrite", cwd=project)
        assert done.returncode == 0, done.stderr
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
    "command",
    [COMMANDS["search"], COMMANDS["evaluate"], ("evaluate", "runs/mine")],
)
def test_what_a_run_was_made_from_is_written_over_by_no_word(project, command):
    own = ("--set", "evaluate.on=[data/own.jsonl]", "--until", "sources")
    (project / "data/own.jsonl").write_text(ASKED)
    assert toolbank("run", "mine.yaml", *own, cwd=project).returncode == 0
    (project / "mine.yaml").rename(project / "renamed.yaml")
    for place in ("data/own.jsonl", "renamed.yaml"):
        written = ("--out", place, "--overwrite")
        refused(project, *command, *written, told=["what is read", place])


@pytest.mark.parametrize("command", ["search", "evaluate"])
def test_a_pipe_and_the_devices_may_be_written_to(project, command):
    to_pipe = (*COMMANDS[command], "--out")
    with read_by_others(project / "pipe") as reader:
        assert toolbank(*to_pipe, "pipe", cwd=project).returncode == 0
        assert b"statistics.median" in os.read(reader, 100_000) or command != "search"
    assert (project / "pipe").is_fifo()
    assert toolbank(*to_pipe, "/dev/null", cwd=project).returncode == 0
    full = toolbank(*to_pipe, "/dev/full", cwd=project)
    assert (full.returncode, "No space left" in full.stderr) == (1, True)


@pytest.mark.parametrize("to_file", [False, True])
def test_hits_go_where_the_shell_sends_them(project, to_file):
    command = [sys.executable, "-m", "toolbank", *COMMANDS["search"]]
    command += ["--out", "/dev/stdout"]
    path = project / "out.json"
    path.touch()
    with path.open("a" if to_file else "r") as file:
        done = subprocess.run(
            command,
            cwd=project,
            stdout=file if to_file else subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
    [line] = (path.read_text() if to_file else done.stdout).splitlines()
    assert "statistics.median" in json.loads(line)["tools"]


def refused(project, *arguments, told):
    before = seen(project)
    done = toolbank(*arguments, cwd=project)
    assert done.returncode == 2, done.stderr
    for part in told:
        assert part in done.stderr
    assert seen(project) == before


def test_a_file_that_is_read_is_not_written_to(project):
    for place in ("asked.jsonl", "link.jsonl", "hard.jsonl", "data/../asked.jsonl"):
        refused(
            *(project, "evaluate", "runs/mine", "--on", "asked.jsonl"),
            *("--out", place),
            told=[place, "what is read (asked.jsonl)", "another place"],
        )


def test_the_root_and_the_home_are_no_folders_of_runs(project, home):
    for place, called in (("/", "root of the disk"), (home, "your home folder")):
        for command in ("run", "plan", "preview"):
            refused(project, command, "mine.yaml", "--out", place, told=[called])
        for form in FORMATS:
            refused(
                *(project, "export", "runs/mine", "--format", form, "--out", place),
                told=[called],
            )


def test_a_recipe_that_was_written_by_hand_makes_no_run_of_its_folder(project):
    refused(
        *(project, "run", "mine.yaml", "--out", "byhand"),
        told=["byhand: holds recipe.yaml", "not the folder of a run"],
    )
    refused(project, "run", "byhand", told=["byhand", "give the file"])
    shutil.copy(project / "runs/mine/recipe.yaml", project / "byhand")
    refused(project, "run", "mine.yaml", "--out", "byhand", told=["recipe.yaml"])


def test_no_folder_is_made_for_a_file(project):
    refused(
        *(project, "search", "runs/mine", "--queries", "asked.jsonl"),
        *("--out", "nowhere/deep/h.jsonl"),
        told=["nowhere/deep: no such folder", "mkdir -p"],
    )


def test_a_run_does_not_read_what_it_writes(project):
    hits = project / "runs/mine/hits/bm25.jsonl"
    refused(
        *(project, "run", "mine.yaml", "--set", f"evaluate.on=[{hits}]"),
        told=[str(hits), "which this run writes"],
    )


def test_requests_that_are_missing_are_told_before_a_model_is_loaded(project):
    shutil.rmtree(project / "runs/mine/models")
    refused(
        *(project, "search", "runs/mine", "--queries", "none.jsonl"),
        *("--out", "h.jsonl"),
        told=["none.jsonl"],
    )


def test_an_export_to_a_file_says_what_is_in_its_way(project):
    refused(
        *(project, "export", "runs/mine", "--format", "jsonl", "--out", "asked.jsonl"),
        told=["asked.jsonl: a file, and an export needs a folder"],
    )


@pytest.mark.parametrize(
    ("settings_", "told"),
    [
        (["name=other"], ["name: mine there, other in this recipe"]),
        (["seed=7"], ["seed: 0 there, 7 in this recipe"]),
        (["sources.0.package=csv"], ["sources: {type: python, package: json}", "csv"]),
    ],
)
def test_another_recipe_does_not_take_over_a_folder(project, settings_, told):
    sets = [part for setting in settings_ for part in ("--set", setting)]
    place = ("--out", "runs/mine")
    for command in ("run", "generate", "judge", "train", "report"):
        refused(
            *(project, command, "mine.yaml", *sets, *place), told=[*told, "--replace"]
        )
    refused(project, "run", "runs/mine", *sets, told=told)
    planned = toolbank("plan", "mine.yaml", *sets, *place, cwd=project)
    assert told[0] in planned.stdout
    assert "--replace" in planned.stdout


def test_replace_keeps_all_that_the_other_recipe_made(project):
    earlier = seen(project / "runs/mine")
    done = toolbank(
        *("run", "mine.yaml", "--set", "seed=7", "--out", "runs/mine", "--replace"),
        cwd=project,
    )
    assert done.returncode == 0, done.stderr
    assert "runs/mine/replaced/1" in done.stderr
    kept = seen(project / "runs/mine/replaced/1")
    apart = (".lock", ".lock.owner", "journal.sqlite")
    assert kept == {k: v for k, v in earlier.items() if k not in apart}
    assert (project / "runs/mine/journal.sqlite").is_file()
    assert "seed: 7" in (project / "runs/mine/recipe.yaml").read_text()
    found = toolbank("search", "runs/mine/replaced/1", "middle value", cwd=project)
    assert "statistics.median" in found.stdout
    again = toolbank("run", "runs/mine", cwd=project)
    assert "Everything was done already" in again.stdout
    refused(project, "run", "mine.yaml", told=["seed: 7 there, 0 in this recipe"])


def test_a_run_writes_through_no_link(project):
    shutil.copytree(project / "runs/mine", project / "runs/other")
    models = project / "runs/other/models"
    shutil.rmtree(models / "bm25")
    for link in (models / "bm25", models):
        if link == models:
            shutil.rmtree(models)
        link.symlink_to(project / "runs/mine/models" / link.relative_to(models))
        for command in ("run", "plan"):
            refused(
                *(project, command, "mine.yaml", "--out", "runs/other"),
                told=[f"{link.relative_to(project)}: a link"],
            )
    (project / "notes.txt").write_text("mine")
    (project / "lnotes").symlink_to("notes.txt")
    told = ["lnotes: a link that leads to a file, and a run needs a folder"]
    refused(project, "run", "mine.yaml", "--out", "lnotes", told=told)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("sources.0.package=no_such_package", "no_such_package is not installed"),
        ("retrievers=[{type: bm25}]", "none is left to train on"),
    ],
)
def test_what_a_recipe_can_not_read_replaces_nothing(project, setting, told):
    recipe = "mine.yaml"
    if "retrievers" in setting:
        recipe = "bad.yaml"
        (project / recipe).write_text(
            "name: bad\ndataset: {type: jsonl, path: bad}\nretrievers: [{type: bm25}]\n"
        )
        (project / "bad").mkdir()
        (project / "bad/tools.jsonl").write_text(
            '{"name": "a", "description": "Median."}\n'
        )
        (project / "bad/queries.jsonl").write_text(
            '{"query": "middle value", "tools": ["a"], "split": "test"}\n'
        )
    place = ("--out", "runs/mine", "--replace")
    refused(project, "run", recipe, "--set", setting, *place, told=[told])
    assert not (project / "runs/mine/replaced").exists()


def test_a_recipe_that_was_edited_in_the_folder_is_compared_with_what_made_it(project):
    path = project / "runs/mine/recipe.yaml"
    path.write_text(path.read_text().replace("seed: 0", "seed: 7"))
    refused(project, "run", "runs/mine", told=["seed: 0 there, 7"])


def test_a_recipe_that_grows_goes_on_in_its_folder(project):
    done = toolbank(
        *("run", "mine.yaml", "--set", "retrievers=[{type: bm25}, {type: nearest}]"),
        *("--set", "generate.queries=35"),
        cwd=project,
    )
    assert done.returncode == 0, done.stderr
    assert not (project / "runs/mine/replaced").exists()


def write_dataset(folder, *others):
    folder.mkdir(exist_ok=True)
    tools = ["find flights", "book hotels", "read mails", *others]
    (folder / "tools.jsonl").write_text(
        "".join(
            f'{{"name": "t{n}", "description": "{t}"}}\n' for n, t in enumerate(tools)
        )
    )
    (folder / "queries.jsonl").write_text(
        "".join(
            f'{{"query": "{t} {m}", "tools": ["t{n}"]}}\n'
            for n, t in enumerate(tools)
            for m in ("now", "today", "soon", "for me", "please")
        )
    )


def test_a_dataset_may_move_and_grow_and_another_one_is_refused(tmp_path):
    write_dataset(tmp_path / "data")
    (tmp_path / "own.yaml").write_text(
        "name: own\ndataset: {type: jsonl, path: data}\nretrievers: [{type: bm25}]\n"
        "baselines: false\n"
    )
    run = ("run", "own.yaml", "--until", "retrievers")
    assert toolbank(*run, cwd=tmp_path).returncode == 0
    write_dataset(tmp_path / "data", "send letters")
    assert toolbank(*run, cwd=tmp_path).returncode == 0
    (tmp_path / "data").rename(tmp_path / "moved")
    done = toolbank(*run, "--set", "dataset.path=moved", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    write_dataset(tmp_path / "other", "plant trees")
    refused(
        *(tmp_path, *run, "--set", "dataset.path=other"),
        told=["dataset: ", f"{tmp_path}/moved there", f"{tmp_path}/other in this"],
    )


def test_a_finished_run_that_can_not_be_written_to_prints_its_table(world, tmp_path):
    with small_disk(tmp_path / "disk", 20_000):
        place = fresh(world, tmp_path / "disk")
        subprocess.run(["mount", "-o", "remount,ro", tmp_path / "disk"], check=True)
        done = toolbank("run", "mine.yaml", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "R@5" in done.stdout
    assert "Everything was done already" in done.stdout
