"""No command writes over what is the user's, whatever place it is given."""

import shutil

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.commands.whose_files.project import (
    COMMANDS,
    act,
    fresh,
    read_by_others,
    seen,
)

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


SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
STEPS = st.tuples(
    st.sampled_from([*sorted(COMMANDS), "save", "show"]), st.sampled_from(PLACES)
)


@settings(max_examples=25, suppress_health_check=SLOW)
@given(st.lists(STEPS, min_size=1, max_size=4))
@example([("save", "data"), ("save", "runs/mine/bank"), ("save", "runs/linked")])
@example([("replace", "byhand"), ("train", "stages"), ("judge", "hidden")])
@example([("run", "."), ("crawl", "loop")])
@example([("search", "asked.jsonl"), ("evaluate", "hard.jsonl")])
@example([("run", "runs/new"), ("jsonl", "runs/new"), ("search", "runs/new/h.jsonl")])
@pytest.mark.slow
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


@pytest.mark.slow
@settings(max_examples=12, suppress_health_check=SLOW)
@given(
    st.sampled_from(["run", "generate", "search", "evaluate", "jsonl", "toolbank"]),
    st.data(),
)
def test_what_was_edited_since_is_not_lost(world, tmp_path_factory, command, data):
    project = fresh(world, tmp_path_factory.mktemp("one"))
    before = set(seen(project))
    assert act(command, "out.json", project).returncode == 0
    written = sorted(set(seen(project)) - before)
    accounts = (".lock", "journal.", "stages.json", "origin.json", ".toolbank.json")
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
