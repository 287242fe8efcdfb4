"""No recipe writes over the results of another."""

import hashlib
import json
import shutil
import subprocess

import pytest

from tests.commands.in_process import do, sets, toolbank
from tests.commands.whose_files.project import fresh, refused, seen
from tests.small_disk import small_disk
from tests.world import write_dataset, write_dataset_recipe


def test_a_recipe_that_was_written_by_hand_makes_no_run_of_its_folder(project):
    refused(
        *(project, "run", "mine.yaml", "--out", "byhand"),
        told=["byhand: holds recipe.yaml", "not the folder of a run"],
    )
    refused(project, "run", "byhand", told=["byhand", "recipe"])
    shutil.copy(project / "runs/mine/recipe.yaml", project / "byhand")
    refused(project, "run", "mine.yaml", "--out", "byhand", told=["recipe.yaml"])


@pytest.mark.parametrize(
    ("settings_", "told"),
    [
        (["name=other"], ["name: mine there, other in this recipe"]),
        (["seed=7"], ["seed: 0 there, 7 in this recipe"]),
        (["sources.0.package=csv"], ["{type: python, package: statistics}", "csv"]),
    ],
)
def test_another_recipe_does_not_take_over_a_folder(project, settings_, told):
    changes = sets(*settings_)
    place = ("--out", "runs/mine")
    for command in ("run", "generate", "judge", "train", "report"):
        refused(
            *(project, command, "mine.yaml", *changes, *place),
            told=[*told, "--replace"],
        )
    refused(project, "run", "runs/mine", *changes, told=told)
    planned = toolbank("plan", "mine.yaml", *changes, *place, cwd=project)
    assert told[0] in planned.stdout
    assert "--replace" in planned.stdout


def test_replace_keeps_all_that_the_other_recipe_made(project):
    earlier = seen(project / "runs/mine")
    out = ("--out", "runs/mine", "--replace")
    done = do(project, "run", "mine.yaml", "--set", "seed=7", *out)
    assert "runs/mine/replaced/1" in done.stderr
    kept = seen(project / "runs/mine/replaced/1")
    apart = (".toolbank.json", ".lock", ".lock.owner", "journal.sqlite")
    assert kept == {k: v for k, v in earlier.items() if k not in apart}
    assert (project / "runs/mine/journal.sqlite").is_file()
    assert "seed: 7" in (project / "runs/mine/recipe.yaml").read_text()
    found = do(project, "search", "runs/mine/replaced/1", "middle value")
    assert "statistics.median" in found.stdout
    assert "done already" in do(project, "run", "runs/mine").stdout
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
    models.unlink()
    for name in ("verify", "batch"):
        (project / "runs/other" / name).symlink_to(project / "empty")
        told = [f"runs/other/{name}: a link"]
        refused(project, "run", "mine.yaml", "--out", "runs/other", told=told)
        (project / "runs/other" / name).unlink()
    (project / "notes.txt").write_text("mine")
    (project / "lnotes").symlink_to("notes.txt")
    told = ["lnotes: a link that leads to a file, and a run needs a folder"]
    refused(project, "run", "mine.yaml", "--out", "lnotes", told=told)


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("retrievers/bm25", "models/bm25/../../../../victim/bashrc"),
        ("evaluate", "hits/../../../victim/bashrc"),
        ("retrievers/bm25", "{project}/victim/bashrc"),
    ],
)
def test_a_strangers_run_removes_no_file_outside_of_it(project, stage, name):
    victim = project / "victim" / "bashrc"
    victim.parent.mkdir()
    victim.write_text("alias ls=ls")
    listed = project / "runs/mine/stages.json"
    stages = json.loads(listed.read_text())
    sha256 = hashlib.sha256(victim.read_bytes()).hexdigest()
    stages[stage]["outputs"][name.format(project=project)] = sha256
    stages[stage]["complete"] = False
    listed.write_text(json.dumps(stages))
    toolbank("run", "runs/mine", cwd=project)
    toolbank("run", "runs/mine", "--set", "seed=7", "--replace", cwd=project)
    assert victim.read_text() == "alias ls=ls"


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("sources.0.package=no_such_package", "no_such_package is not installed"),
        ("retrievers=[{type: bm25}]", "no query can be used"),
    ],
)
def test_what_a_recipe_can_not_read_replaces_nothing(project, setting, told):
    recipe = "mine.yaml"
    if "retrievers" in setting:
        dataset = {"type": "jsonl", "path": "bad"}
        recipe = write_dataset_recipe(project, "bad", dataset=dataset)
        query = {"query": "middle value", "tools": ["b"], "split": "test"}
        write_dataset(project / "bad", ["a"], [query])
    place = ("--out", "runs/mine", "--replace")
    refused(project, "run", recipe, "--set", setting, *place, told=[told])
    assert not (project / "runs/mine/replaced").exists()


def test_a_recipe_that_grows_goes_on_in_its_folder(project):
    more = ("retrievers=[{type: bm25}, {type: nearest}]", "generate.queries=35")
    do(project, "run", "mine.yaml", *sets(*more))
    assert not (project / "runs/mine/replaced").exists()
    path = project / "runs/mine/recipe.yaml"
    path.write_text(path.read_text().replace("seed: 0", "seed: 7"))
    refused(project, "run", "runs/mine", told=["seed: 0 there, 7"])


def write_tools(folder, *more):
    tools = [
        {"name": f"t{n}", "description": text}
        for n, text in enumerate(("find flights", "book hotels", "read mails", *more))
    ]
    queries = [
        {"query": f"{tool['description']} {word}", "tools": [tool["name"]]}
        for tool in tools
        for word in ("now", "today", "soon", "for me", "please")
    ]
    write_dataset(folder, tools, queries)


def test_a_dataset_may_move_and_grow_and_another_one_is_refused(tmp_path):
    write_tools(tmp_path / "data")
    write_dataset_recipe(tmp_path, "own")
    run = ("run", "own.yaml", "--until", "retrievers")
    do(tmp_path, *run)
    write_tools(tmp_path / "data", "send letters")
    do(tmp_path, *run)
    (tmp_path / "data").rename(tmp_path / "moved")
    do(tmp_path, *run, "--set", "dataset.path=moved")
    write_tools(tmp_path / "other", "plant trees")
    refused(
        *(tmp_path, *run, "--set", "dataset.path=other"),
        told=["dataset: ", f"{tmp_path}/moved there", f"{tmp_path}/other in this"],
    )


def test_a_finished_run_that_can_not_be_written_to_prints_its_table(world, tmp_path):
    with small_disk(tmp_path / "disk", 20_000):
        place = fresh(world, tmp_path / "disk")
        subprocess.run(["mount", "-o", "remount,ro", tmp_path / "disk"], check=True)
        said = do(place, "run", "mine.yaml").stdout
    assert "R@5" in said and "done already" in said
