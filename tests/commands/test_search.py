"""What a search says: the score's meaning, and one line a hit whatever a tool is called."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from filelock import FileLock

from tests.commands.in_process import do, toolbank
from tests.tiny_models import tiny_encoder
from tests.world import write_dataset, write_dataset_recipe
from toolbank.encoders.model import SentenceEncoder
from toolbank.retrievers import RETRIEVERS
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.run.recipe import load_recipe
from toolbank.search import run_search
from toolbank.search.run_search import load
from toolbank.system.errors import InputError

LONG = "x" * 10_000
NAMES = (LONG, "two\nlines\n  9.999  made.up", "plain", "other")
LEXICAL = ({"type": "bm25"}, {"type": "nearest", "by": "bm25"})


def write_odd(folder, *retrievers):
    tools = [
        {"name": name, "description": f"Sharpen\nknife {i}. {LONG[:500]}"}
        for i, name in enumerate(NAMES)
    ]
    aliases = [f"{LONG}{n}" for n in range(1000)]
    tools[3] |= {"kind": "function", "signature": LONG, "aliases": aliases}
    queries = [
        {
            "id": f"q{i}",
            "query": f"Sharpen my knife {i}.",
            "tools": [NAMES[i % 4]],
            "split": ("train", "test")[i % 2],
        }
        for i in range(40)
    ]
    write_dataset(folder / "data", tools, queries)
    write_dataset_recipe(folder, "odd", retrievers=list(retrievers))


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    write_odd(folder, *LEXICAL)
    do(folder, "run", "odd.yaml")
    return folder


def search(folder, *options, query="knife", code=0):
    return do(folder, "search", "runs/odd", query, *options, code=code)


def test_a_hit_is_one_line_that_can_be_read_whatever_the_tool_is_called(odd):
    done = search(odd, "--retriever", "bm25")
    lines = done.stdout.splitlines()
    assert len(lines) == len(NAMES)
    assert all(re.match(r" *\d\.\d{3}  \S", line) for line in lines)
    assert max(map(len, lines)) < 320
    assert any("two lines 9.999 made.up" in line for line in lines)


@pytest.fixture(scope="module")
def alike(tmp_path_factory):
    """A run over a saw and five knives that no request can tell apart."""
    folder = tmp_path_factory.mktemp("alike")
    knives = [f"shop{n}.knife" for n in range(5)]
    tools = [{"name": name, "description": "Sharpen a knife."} for name in knives]
    tools[0]["twins"] = [*knives[1:], "gone.knife"]
    tools.append({"name": "shop.saw", "description": "Sharpen the saw."})
    query = {"id": "q", "query": "a knife", "tools": [knives[4]], "split": "test"}
    write_dataset(folder / "data", tools, [query])
    write_dataset_recipe(folder, "alike")
    done = do(folder, "run", "alike.yaml")
    return folder, done.stdout


def test_twins_are_one_line_and_leave_room_for_others(alike):
    folder, _ = alike
    done = toolbank("search", "runs/alike", "sharpen a knife", "-k", "2", cwd=folder)
    first, second = done.stdout.splitlines()
    assert "shop.saw" in second
    assert "knife" not in second
    (found,) = load(folder / "runs/alike").search("sharpen a knife", 1)
    others = [f"shop{n}.knife" for n in range(5)]
    others.remove(found.tool.name)
    assert f"  {found.tool.name}  Sharpen a knife." in first
    assert first.endswith(f" (or {', '.join(others[:3])} and 1 more)")


def test_twins_have_a_second_figure_and_are_told_of_a_tool(alike):
    folder, told = alike
    assert "or twin" in told
    done = toolbank("show", "runs/alike", "shop0.knife", cwd=folder)
    others = "shop1.knife, shop2.knife, shop3.knife, shop4.knife, gone.knife"
    assert f"no request can tell it from {others}" in done.stdout


def test_the_first_line_says_what_the_score_is(odd):
    chosen = search(odd).stderr.splitlines()[-1]
    assert re.match(r"Retriever: \S+ \(.+\)\. .*--retriever NAME", chosen)
    words = search(odd, "--retriever", "bm25")
    assert words.stderr.splitlines()[-1] == (
        "Retriever: bm25 (BM25, a sum over the words in common: 0 without any)"
    )


def test_a_search_in_a_run_that_is_not_finished_says_what_it_lacks(odd, tmp_path):
    whole = search(odd)
    assert "not finished" not in whole.stderr
    part = tmp_path / "part"
    shutil.copytree(odd / "runs/odd", part)
    stages = json.loads((part / "stages.json").read_text())
    for name in ("retrievers/nearest", "evaluate", "report"):
        del stages[name]
    (part / "stages.json").write_text(json.dumps(stages))
    shutil.rmtree(part / "models/nearest")
    told = do(odd, "search", part, "knife")
    assert told.stdout == whole.stdout
    [line] = [line for line in told.stderr.splitlines() if "not finished" in line]
    assert "Not there yet: retrievers/nearest, evaluate, report." in line
    assert line.endswith(f"toolbank run {part}")
    shutil.copy(odd / "runs/odd/stages.json", part)
    lost = do(odd, "search", part, "knife")
    assert lost.stdout == whole.stdout
    assert "Not there yet: retrievers/nearest." in lost.stderr
    with pytest.warns(UserWarning, match="Not there yet: retrievers/nearest") as warned:
        load(part)
    assert [Path(one.filename).name for one in warned] == ["test_search.py"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(odd / "runs/odd")


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_name_is_refused_in_a_sentence(empty):
    with pytest.raises(InputError, match=r"^The run is .* it has to be a folder"):
        load(empty)
    with pytest.raises(InputError, match=r"^The recipe is empty"):
        load_recipe(empty)


def test_what_a_run_lacks_is_made_by_one_and_the_same_command(odd, tmp_path):
    (tmp_path / "begun").mkdir()
    for name in ("recipe.yaml", "origin.json"):
        shutil.copy(odd / "runs/odd" / name, tmp_path / "begun")
    advice = "To finish the run: toolbank run begun"
    for command in (
        ("search", "begun", "knife"),
        ("train", "begun"),
        ("report", "begun"),
        ("evaluate", "begun"),
        ("export", "begun", "--format", "jsonl", "--out", "exported"),
    ):
        told = do(tmp_path, *command, code=2).stderr
        assert told.strip().endswith(advice)


def test_without_a_lexical_hit_a_dense_search_is_suggested(tmp_path, monkeypatch):
    monkeypatch.setattr(run_search, "find_spec", lambda _: None)
    encoder = {"model": str(tiny_encoder(tmp_path / "encoder"))}
    dense = {"type": "descriptions", "encoder": encoder}
    write_odd(tmp_path, LEXICAL[0], dense, LEXICAL[1])
    do(tmp_path, "run", "odd.yaml")
    asked = ("search", "runs/odd", "is it raining?", "--retriever")
    told = toolbank(*asked, "bm25", cwd=tmp_path).stdout.splitlines()
    assert told[0].startswith("No tool fits at all.")
    _, *command = shlex.split(told[-1])
    assert command == [*asked, "descriptions"]
    found = toolbank(*command, cwd=tmp_path)
    assert len(found.stdout.splitlines()) == len(NAMES)


def test_where_all_go_by_words_a_search_without_a_hit_names_no_other(odd):
    done = search(odd, "--retriever", "bm25", query="is it raining?")
    assert done.stdout == "No tool fits at all. Say it in other words.\n"


def test_every_method_says_what_its_score_is():
    for name in RETRIEVERS.own:
        score = RETRIEVERS.find(name, "retrievers").config.score
        assert score != RetrieverConfig.score, name


def test_a_tool_and_a_query_are_shown_on_lines_of_their_own(odd):
    tool = toolbank("show", "runs/odd", NAMES[1], cwd=odd)
    assert tool.stdout.startswith("two lines 9.999 made.up, a ")
    assert "requests that use it: 10" in tool.stdout
    tool = toolbank("show", "runs/odd", NAMES[3], cwd=odd)
    assert "990 more" in tool.stdout
    assert len(tool.stdout) < 6_000
    query = toolbank("show", "runs/odd", "q0", cwd=odd)
    assert max(map(len, query.stdout.splitlines())) < 340
    gone = do(odd, "show", "runs/odd", "gone", code=2)
    assert "no query and no tool" in gone.stderr
    near = toolbank("show", "runs/odd", "plane", cwd=odd)
    assert "The nearest tools are plain" in near.stderr


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dense")
    encoder = {"model": str(tiny_encoder(folder / "encoder"))}
    near = {"type": "nearest", "name": "near", "encoder": encoder}
    write_odd(folder, {"type": "descriptions", "encoder": encoder}, near)
    do(folder, "run", "odd.yaml", "--until", "retrievers")
    return folder


@pytest.fixture
def dense(fitted, tmp_path):
    return shutil.copytree(fitted, tmp_path / "copied")


def search_without_torch(folder, *options, others=()):
    """Search in a process that cannot import it, nor the others."""
    script = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({('torch', *others)!r}))\n"
        "from toolbank.commands.cli import main\n"
        f"sys.argv = ['toolbank', 'search', 'runs/odd', 'knife', *{options!r}]\n"
        "main()"
    )
    return subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True
    )


def test_a_search_by_words_imports_no_torch(odd):
    others = ("transformers", "sentence_transformers", "sklearn")
    done = search_without_torch(odd, "--retriever", "bm25", others=others)
    assert "two lines 9.999" in done.stdout, done.stderr


def test_the_next_search_of_a_run_is_by_a_packed_copy_without_torch(dense, monkeypatch):
    copied = dense / "runs/odd/finders/descriptions/finder.json"
    first = search(dense)
    mark = json.loads(copied.read_text())
    second = search_without_torch(dense)
    assert second.stdout == first.stdout, second.stderr
    with monkeypatch.context() as here:
        here.setitem(sys.modules, "onnxruntime", None)
        assert search(dense).stdout == first.stdout
    saved = dense / "runs/odd/models/descriptions/config.json"
    saved.write_text(saved.read_text() + "\n")
    third = search_without_torch(dense)
    assert (third.returncode, "needs torch" in third.stderr) == (2, True), third.stderr
    saved.write_text(saved.read_text().removesuffix("\n"))
    with FileLock(copied.parent / "versions/.lock"):
        assert search(dense).stdout == first.stdout
    assert json.loads(copied.read_text()) == mark
    assert search(dense).stdout == first.stdout
    assert json.loads(copied.read_text())["source"] != mark["source"]
    assert search_without_torch(dense).stdout == first.stdout


@pytest.mark.slow
def test_stopping_the_copy_of_a_retriever_keeps_the_hits(dense, monkeypatch):
    def stopped(self, folder, precision):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(b"half")
        signal.raise_signal(signal.SIGINT)

    finders = dense / "runs/odd/finders"
    with monkeypatch.context() as patched:
        patched.setattr(SentenceEncoder, "export", stopped)
        done = search(dense, code=1)
    assert len(done.stdout.splitlines()) == len(NAMES)
    assert "The hits are complete" in done.stderr
    said = "writing a packed copy of descriptions to runs/odd/finders/descriptions, "
    assert said in done.stderr
    assert [path.name for path in finders.rglob("*") if path.is_file()] == [".lock"]
    again = search(dense)
    assert (finders / "descriptions/finder.json").is_file()
    # Its encoder is that of the copy.
    monkeypatch.setattr(SentenceEncoder, "export", stopped)
    other = search(dense, "--retriever", "near")
    assert (again.stdout, "hits are complete" in other.stderr) == (done.stdout, False)
    found = search_without_torch(dense, "--retriever", "near")
    assert found.stdout == other.stdout, found.stderr
    [first, second] = sorted(finders.glob("*/versions/*/encoders/*/model.onnx"))
    second.write_bytes(b"damaged")
    first.write_bytes(b"damaged")
    [mark] = finders.glob("near/finder.json")
    mark.unlink()
    told = search(dense, "--retriever", "near", code=1)
    assert ("hits are complete" in told.stderr, told.stdout) == (True, other.stdout)


def test_what_is_in_the_way_of_the_copy_is_named_and_left(dense):
    (dense / "runs/odd/finders").write_text("mine")
    done = search(dense)
    assert len(done.stdout.splitlines()) == len(NAMES)
    told = done.stderr.splitlines()[-1]
    assert told.startswith("No packed copy was written. runs/odd/finders")
    assert (dense / "runs/odd/finders").read_text() == "mine"


def test_a_run_is_searched_without_the_extra_that_packs(dense, monkeypatch):
    monkeypatch.setattr(run_search, "find_spec", lambda _: None)
    for _ in range(2):
        finder, keep = run_search.open_searched(dense / "runs/odd")
        keep()
        assert not finder.packed
    assert not (dense / "runs/odd/finders").exists()
