"""A run folder holds the prompts that it was made with, and a later start uses them."""

import json
import shutil
from pathlib import Path

import pytest

from tests.commands.in_process import do, toolbank
from tests.servers.chat import Answer
from tests.world import files_under, good, write_recipe
from toolbank.config.assets import shipped

STAGES = {
    "asks": "{}",
    "judge": "{engine: openai, base_url: URL, model: m, pairs: 4, criteria: [naturalness]}",
    "verify": "{engine: openai, base_url: URL, model: m}",
    "retrievers": "[{type: bm25}, {type: llm, first_stage: bm25, base_url: URL, model: m, "
    "replies: ranks.sqlite}, {type: decomposition, first_stage: bm25, decompose: "
    "{base_url: URL, model: m, replies: parts.sqlite}}]",
}


@pytest.fixture
def project(tmp_path, server):
    """A folder with a recipe of every stage that calls a model, and prompts of its own."""
    folder = tmp_path / "project"
    folder.mkdir()
    model = {"base_url": server.url, "model": "m", "engine": "openai"}
    recipe = Path(write_recipe(folder, queries=12, **model))
    text = recipe.read_text().partition("retrievers:")[0]
    generate = recipe.read_text().splitlines()[-1]
    more = "".join(f"{key}: {value}\n" for key, value in STAGES.items())
    recipe.write_text(f"{text}{generate}\n{more.replace('URL', server.url)}")
    for name in ("write", "asks", "judge", "verify", "rank", "decompose"):
        edit(folder / "prompts", f"{name}.j2", "Read with care.")
    return folder


def edit(folder, name, line):
    """Put a line before the bundled template's, in a user's folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{line}\n{(shipped('prompts') / name).read_text()}")
    return path


def forget_assets(made):
    """Make a run one of version 0.7.0: it kept no prompts and noted nothing of them in stages.json."""
    shutil.rmtree(made / "prompts")
    stamps = json.loads((made / "stages.json").read_text())
    for stamp in stamps.values():
        del stamp["assets"], stamp["depends"]
    (made / "stages.json").write_text(json.dumps(stamps))
    return stamps


def run(cwd, *arguments, code=0):
    ended = do(cwd, "run", *arguments, code=code)
    return ended.stdout + ended.stderr


def generate(project):
    run(project, "mine.yaml", "--until", "generate")
    return project / "runs" / "mine"


def use_examples(folder):
    path = folder / "examples" / "tools.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(shipped("prompts") / "examples/numpy.jsonl", path)
    return path


@pytest.mark.slow
def test_no_stage_is_bought_again_from_any_folder(project, server, tmp_path):
    run(project, "mine.yaml")
    steps = {frozenset(call.keys) for call in server.calls}
    assert len(steps) == 7  # write, polish, ask, judge, verify, rank, decompose
    assert all("Read with care." in c.prompt for c in server.calls if not c.asks_polish)
    bought = len(server.calls)
    other = tmp_path / "other"
    for name in ("write", "asks", "judge", "verify", "rank"):
        edit(other / "prompts", f"{name}.j2", "Something else.")
    use_examples(other / "prompts")
    linked = tmp_path / "linked"
    linked.symlink_to(project)
    made = project / "runs" / "mine"
    recipe, by_link = project / "mine.yaml", linked / "mine.yaml"
    for folder, given in (
        *((project, one) for one in (recipe, by_link, made)),
        *((other, one) for one in (recipe, by_link, made)),
        *((made, recipe), (Path("/"), made), (linked, by_link), (tmp_path, by_link)),
    ):
        said = run(folder, str(given))
        assert "done already" in said
        assert not (folder / "runs").exists() or folder in (project, linked)
        planned = toolbank("plan", str(given), cwd=folder).stdout
        assert "to do" not in planned
    shutil.rmtree(project / "prompts")
    run(project, "mine.yaml")
    moved = tmp_path / "moved"
    shutil.move(made, moved)
    run(other, str(moved))
    do(other, "search", str(moved), "a mean", "--retriever", "llm")
    assert len(server.calls) == bought + 1
    assert "Read with care." in server.calls[-1].prompt


@pytest.mark.parametrize(
    ("name", "stage", "stays"),
    [("judge.j2", "judge", "generate"), ("write.j2", "generate", "sources")],
)
@pytest.mark.slow
def test_other_prompts_stop_a_run_until_replace(project, server, name, stage, stays):
    run(project, "mine.yaml")
    bought, made = len(server.calls), project / "runs" / "mine"
    before = files_under(made)
    edit(project / "prompts", name, "Be quick about it.")
    said = run(project, "mine.yaml", code=2)
    assert "-Read with care." in said
    assert "+Be quick about it." in said
    assert "--replace" in said
    planned = toolbank("plan", "mine.yaml", cwd=project).stdout
    [line] = [line for line in planned.splitlines() if line.split()[:1] == [stage]]
    assert f"prompts/{name} differs from the run's" in line
    changed = before.items() - files_under(made).items()
    assert {name for name, _ in changed} <= {".lock.owner"}
    run(project, str(made))
    assert len(server.calls) == bought
    said = run(project, "mine.yaml", "--replace")
    assert f"{stays:<24} done already" in said
    assert "replaced/1" in said and "changed since" not in said
    assert any("Be quick about it." in call.prompt for call in server.calls[bought:])
    judged = json.loads((made / "judge.json").read_text())
    earlier = json.loads(before["judge.json"])
    kept = [judged, *judged.get("others", ())]
    assert earlier["pairs"] in [one["pairs"] for one in kept]
    assert judged["pairs"] != earlier["pairs"] or stage != "judge"
    old = made / "replaced" / "1"
    assert "Read with care." in (old / "prompts" / name).read_text()
    assert "Be quick about it." in (made / "prompts" / name).read_text()
    by_prompt = json.loads((made / "bank" / "bank.json").read_text())["prompts"]
    assert len(by_prompt) == (1 if stage == "judge" else 2)
    shown = toolbank("show", str(made), cwd=project).stdout
    for prompt, counts in by_prompt.items():
        [line] = [one for one in shown.splitlines() if one.startswith(prompt[:12])]
        assert [int(text) for text in line.split()[1:]] == [*counts.values()]
    bought = len(server.calls)
    run(project, "mine.yaml")
    assert len(server.calls) == bought


@pytest.mark.parametrize(
    ("change", "kept_by"), [("seed=77", "run"), ("seed=3", "version 0.7.0")]
)
def test_another_recipe_uses_its_prompts(project, server, tmp_path, change, kept_by):
    made = generate(project)
    bought = len(server.calls)
    if kept_by == "run":
        shutil.rmtree(project / "prompts")
        edit(made / "prompts", "write.j2", "Read with great care.")
    else:
        forget_assets(made)
    arguments = (str(made), "--set", change, "--until", "generate")
    said = run(tmp_path, *arguments, code=2)
    assert change.partition("=")[0] in said
    assert len(server.calls) == bought
    run(tmp_path, *arguments, "--replace")
    words = "Read with great care." if kept_by == "run" else "Read with care."
    asked = [call.prompt for call in server.calls[bought:] if not call.asks_polish]
    assert asked
    assert all(words in prompt for prompt in asked)
    assert words in (made / "prompts" / "write.j2").read_text()
    assert (made / "replaced" / "1" / "prompts").is_dir() == (kept_by == "run")


@pytest.mark.parametrize(
    ("name", "has_original"), [("write.j2", True), ("polish.j2", False)]
)
def test_an_edited_template_needs_replace(project, server, name, has_original):
    edit(project / "prompts", "polish.j2", "Read with care.")
    made = generate(project)
    bought = len(server.calls)
    if not has_original:
        shutil.rmtree(project / "prompts")
    edit(made / "prompts", name, "Be quick about it.")
    if has_original:
        generate(project)
        assert "Read with care." in (made / "prompts" / name).read_text()
        edit(made / "prompts", name, "Be quick about it.")
    said = run(project, str(made), "--until", "generate", code=2)
    assert f"prompts/{name}" in said
    assert ("+Be quick about it." in said) == has_original
    assert len(server.calls) == bought
    for _ in range(2):
        run(project, str(made), "--until", "generate", "--replace")
        assert "Be quick about it." in (made / "prompts" / name).read_text()
    asked = [c for c in server.calls[bought:] if c.asks_polish == (name == "polish.j2")]
    assert asked
    assert all("Be quick about it." in call.prompt for call in asked)


def test_prompts_are_kept_before_the_first_paid_call(project, server):
    server.script = lambda call: (
        good(call) if call.number < 9 else Answer.error(401, "no more")
    )
    run(project, "mine.yaml", "--until", "generate", code=1)
    kept = project / "runs" / "mine" / "prompts" / "write.j2"
    assert "Read with care." in kept.read_text()
    edit(project / "prompts", "write.j2", "Be quick about it.")
    server.script, bought = good, len(server.calls)
    assert "+Be quick" in run(project, "mine.yaml", "--until", "generate", code=2)
    assert len(server.calls) == bought


def test_prompts_of_a_folder_that_the_recipe_names(project, server, tmp_path):
    (project / "prompts").rename(tmp_path / "shared")
    recipe = project / "mine.yaml"
    recipe.write_text(f"prompts: ../shared\n{recipe.read_text()}")
    run(tmp_path, str(recipe), "--until", "generate")
    assert "Read with care." in server.calls[0].prompt
    (tmp_path / "shared").rename(tmp_path / "gone")
    run(project, "mine.yaml", "--until", "generate", "--out", tmp_path / "runs/mine")
    said = run(project, "mine.yaml", "--out", "new", code=2)
    assert "prompts:" in said and str(tmp_path / "shared") in said


@pytest.mark.parametrize("name", ["copy.yaml", "recipes/again.yaml"])
def test_a_copied_recipe_needs_its_prompts(project, tmp_path, name):
    run(project, "mine.yaml", "--until", "sources")
    copy = tmp_path / name
    copy.parent.mkdir(exist_ok=True)
    shutil.copy(project / "runs/mine/recipe.yaml", copy)
    assert "no such folder" in do(tmp_path, "plan", copy, code=2).stderr
    shutil.rmtree(project / "prompts")
    run(project, "mine.yaml", "--until", "sources", "--out", "bundled")
    shutil.copy(project / "bundled/recipe.yaml", copy)
    assert "to do" in do(tmp_path, "plan", copy).stdout


@pytest.mark.parametrize("name", ["write.j2", "examples/tools.jsonl"])
def test_unused_prompts_of_the_current_folder_are_named(project, tmp_path, name):
    here = tmp_path / "here"
    if name.endswith(".j2"):
        edit(here / "prompts", name, "Other words.")
    else:
        use_examples(here / "prompts")
    recipe, out = project / "mine.yaml", ("--out", tmp_path / "out")
    warned = f"not used (prompts/{name}). To use these files, set `prompts: "
    planned = toolbank("plan", recipe, *out, cwd=here, COLUMNS="200").stdout
    assert warned in " ".join(planned.split())
    said = run(here, recipe, *out, "--until", "generate")
    assert warned in " ".join(said.split())
    assert "not used" not in run(here, recipe, *out, "--until", "generate")
    edit(project / "prompts", "write.j2", "Read with care.")
    assert "not used" not in run(project, recipe, "--until", "sources")


def test_new_examples_of_the_domain_and_other_schemas_are_differences(project, server):
    run(project, "mine.yaml", "--until", "generate")
    bought = len(server.calls)
    schema = (shipped("prompts") / "schemas/polish.json").read_text()
    own = project / "prompts" / "schemas" / "polish.json"
    own.parent.mkdir()
    own.write_text(schema.replace('"type"', '"title": "Words of a user.", "type"', 1))
    again = ("mine.yaml", "--until", "generate")
    assert "Words of a user." in run(project, *again, code=2)
    own.unlink()
    examples = use_examples(project / "prompts")
    assert str(examples) in run(project, *again, code=2)
    assert len(server.calls) == bought


def test_a_folder_of_0_7_0_gets_its_prompts(project, server, tmp_path):
    run(project, "mine.yaml")
    bought, made = len(server.calls), project / "runs" / "mine"
    stamps = forget_assets(made)
    for path in made.glob("models/*/prompts"):
        stamp = stamps[f"retrievers/{path.parent.name}"]
        for name in [name for name in stamp["outputs"] if "/prompts/" in name]:
            del stamp["outputs"][name]
        shutil.rmtree(path)
    (made / "stages.json").write_text(json.dumps(stamps))
    (tmp_path / "other").mkdir()
    run(tmp_path / "other", str(made))
    assert len(server.calls) == bought
    assert "Read with care." in (made / "prompts" / "judge.j2").read_text()
    shutil.rmtree(project / "prompts")
    run(tmp_path / "other", str(made))
    assert len(server.calls) == bought


def test_no_link_in_a_strangers_run_leads_to_a_file_outside_of_it(project, server):
    made, secret = generate(project), project / "secret"
    secret.write_text("my secret")
    shutil.rmtree(project / "prompts")
    for kept in (made / "prompts" / "write.j2", made / "prompts" / "polish.j2"):
        kept.unlink()
        kept.symlink_to(secret)
    said = run(project, str(made), "--from", "generate", code=2)
    assert "my secret" not in said
    assert not any("my secret" in call.prompt for call in server.calls)


@pytest.mark.parametrize(
    ("name", "text"),
    [("verify.j2", "Fine so far.\n{{ broken "), ("judge.j2", "{% if query %}no end")],
)
def test_a_broken_template_is_found_first(project, server, name, text):
    (project / "prompts" / name).write_text(text)
    said = run(project, "mine.yaml", code=2)
    assert f"prompts/{name}, line " in said
    assert not server.calls
    edit(project / "prompts", name, "Read with care.")
    run(project, "mine.yaml", "--until", "sources")


@pytest.mark.parametrize("changed", ["queries: 12", "per_tool: 4", ""])
def test_prompts_are_published_though_their_stage_is_to_be_run_again(project, changed):
    run(project, "mine.yaml")
    made = project / "runs" / "mine"
    text = (made / "recipe.yaml").read_text()
    assert changed in text
    if changed:
        (made / "recipe.yaml").write_text(text.replace(changed, f"{changed[:-1]}3"))
        assert "to do" in do(project, "plan", "runs/mine").stdout
    do(project, "publish", "--skip-stale", "runs/mine", "--to", "public")
    for name in ("write.j2", "asks.j2", "verify.j2", "schemas/judge.json"):
        kept = (made / "prompts" / name).read_bytes()
        assert (project / "public/prompts" / name).read_bytes() == kept
    assert (project / "public/prompts/examples/generic.jsonl").is_file()
    assert "prompts: prompts\n" in (project / "public/recipe.yaml").read_text()
