"""What a recipe asks for and can't have is told before anything is made."""

from pathlib import Path

import pytest
import yaml

from tests.run.test_dataset import NAMES, check_refused, run, write_recipe
from tests.tiny_models import tiny_encoder
from tests.world import write_lines
from toolbank.run.plan import describe_plan
from toolbank.run.recipe import load_recipe
from toolbank.system.errors import InputError


@pytest.fixture
def recipe(tmp_path):
    return write_recipe(tmp_path)


def encoder(name):
    return {"model": f"./{name}"}


def mlc(name="tiny", **training):
    return {"type": "mlc", "encoder": encoder(name), "training": training}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    tiny_encoder(tmp_path / "tiny")
    tiny_encoder(tmp_path / "mute")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "mute" / name).unlink()
    tiny_encoder(tmp_path / "pickled")
    (tmp_path / "pickled" / "model.safetensors").unlink()
    return tmp_path


def given(path, *retrievers, **dataset):
    content = yaml.safe_load(Path(path).read_text())
    content["retrievers"] += retrievers
    content["dataset"].update(dataset)
    Path(path).write_text(yaml.safe_dump(content))


def decomposition(engine="openai"):
    model = {"engine": engine, "base_url": "https://api.example.com/v1", "model": "m"}
    decompose = {**model, "replies": "subtasks.sqlite"}
    return {"type": "decomposition", "first_stage": "bm25", "decompose": decompose}


@pytest.mark.parametrize(
    ("retriever", "told"),
    [
        ({"type": "tool2vec", "encoder": encoder("nowhere")}, "no folder .*nowhere"),
        ({"type": "tool2vec", "encoder": encoder("mute")}, "mute: it has no tokenizer"),
        ({"type": "tool2vec", "encoder": {"model": "a/b"}}, "a/b is not on this"),
        (mlc("pickled"), "pickled: .*safetensors"),
        (mlc(report_to=["nobody"]), "no program 'nobody'"),
        (mlc(precision="fp16"), "fp16 needs a GPU"),
        (decomposition(engine="rules"), "`decompose: rules`"),
    ],
)
def test_what_is_missing_is_refused_first(recipe, folder, retriever, told, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    given(recipe, retriever)
    check_refused(recipe, folder / "out", told)


def test_a_model_that_splits_requests_needs_its_key_only_to_run(recipe, folder):
    given(recipe, decomposition())
    with pytest.raises(InputError, match="OPENAI_API_KEY"):
        run(recipe, folder / "out")
    told = describe_plan(load_recipe(recipe), folder / "out")
    # 40 queries, of which 10 are tested with and 3 of the others held back.
    assert "decomposition: at most 13 requests to m" in told


def test_what_is_fitted_elsewhere_needs_no_training_here(recipe, folder):
    given(recipe, mlc(epochs=1))
    run(recipe, folder / "out")
    again = run(recipe, folder / "out", 'retrievers.1.training.report_to=["nobody"]')
    assert again.did == ("report",)


@pytest.mark.parametrize("more", [{}, {"type": "refiner", "vectors": "bm25"}])
def test_a_stage_without_vectors_is_refused_where_they_are_needed(recipe, more):
    given(recipe, {"type": "nnn", "first_stage": "bm25", **more})
    with pytest.raises(InputError, match=r"needs .*vectors.* bm25 \(bm25\)"):
        load_recipe(recipe)


def test_plans_need_an_order(recipe):
    given(recipe, {"type": "protip"})
    load_recipe(recipe)
    given(recipe, ordered=False)
    with pytest.raises(InputError, match=r"dataset\.ordered: true"):
        load_recipe(recipe)


def test_a_plan_reads_the_dataset(recipe, tmp_path):
    told = describe_plan(load_recipe(recipe), tmp_path / "out")
    assert "Dataset: 5 tools, 40 queries: 27 train, 3 validation, 10 test" in told
    assert "needs a tool that is not listed" in told
    with pytest.raises(InputError, match="nowhere: no such folder"):
        describe_plan(load_recipe(recipe, ["dataset.path=nowhere"]), tmp_path / "out")


def test_what_builds_on_a_changed_retriever_is_planned_anew(recipe, folder):
    given(recipe, {"type": "tool2vec", "encoder": encoder("tiny")}, {"type": "nnn"})
    run(recipe, folder / "out")
    changed = load_recipe(recipe, ["retrievers.1.centre=false"])
    told = describe_plan(changed, folder / "out").splitlines()
    todo = {line.split()[0] for line in told if "  to do" in line}
    assert {"retrievers/tool2vec", "retrievers/nnn"} <= todo
    assert "retrievers/bm25" not in todo


def test_without_train_queries_all_that_was_left_out_is_told(recipe, tmp_path):
    rows = [{"query": f"a {i}", "tools": [NAMES[0]], "split": "test"} for i in range(3)]
    rows += [{"query": f"b {i}", "tools": ["x"], "split": "train"} for i in range(2)]
    rows += [{"query": "c", "tools": [NAMES[1]], "split": "training"}]
    write_lines(tmp_path / "data" / "queries.jsonl", rows)
    given(recipe, {"type": "nearest", "by": "bm25"})
    with pytest.raises(InputError, match=r"(?s)'training' \(1\).*valid, val, dev"):
        run(recipe, tmp_path / "out")


def test_patience_needs_validation_queries(recipe, folder):
    given(recipe, mlc(patience=2))
    with pytest.raises(InputError, match=r"mlc has patience.*split\.validation"):
        run(recipe, folder / "out", "split.validation=0")
    setting = "retrievers=[{type: mlc, training: {patience: 1}}]"
    with pytest.raises(InputError, match=r"mlc has patience"):
        load_recipe("quickstart", ["split.validation=0", setting])
