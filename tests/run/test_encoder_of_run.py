"""The encoder that one run has fine-tuned, named in another run's recipe."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.run.test_dataset import check_refused, run, write_recipe
from tests.tiny_models import tiny_encoder
from toolbank.encoders import load_encoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.run.folder import hash_tree
from toolbank.run.recipe import load_recipe
from toolbank.search.run_search import open_finder
from toolbank.system.errors import InputError

TRAINING = {"epochs": 1, "batch_size": 4, "learning_rate": 1e-3}


@pytest.fixture
def project(tmp_path):
    """A folder with the recipe `theirs`, and with a tiny encoder to be tuned."""
    write_recipe(tmp_path)
    tiny_encoder(tmp_path / "tiny")
    return tmp_path


def recipe(project, name, *retrievers):
    content = yaml.safe_load((project / "theirs.yaml").read_text())
    # Without validation queries the weights are those of the last epoch.
    content |= {"retrievers": list(retrievers), "split": {"validation": 0}}
    path = project / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content))
    return str(path)


def tuned(name, **encoder):
    own = {"name": name, "encoder": {"model": "./tiny", **encoder}}
    return {"type": "tool2vec", **own, "training": TRAINING}


def first(project, *retrievers):
    path = recipe(project, "first", *retrievers)
    run(path, project / "runs" / "first", until="retrievers")


def second(project, **encoder):
    """A recipe whose descriptions are read by an encoder of runs/first."""
    named = {"run": "runs/first", **encoder}
    return recipe(project, "second", {"type": "descriptions", "encoder": named})


def fitted(project, name, label):
    return open_finder(project / "runs" / name, label)


def test_it_embeds_what_the_other_run_reads(project):
    first(project, tuned("tool2vec"))
    before = hash_tree(project / "runs" / "first")
    result = run(second(project), project / "runs" / "second")
    assert hash_tree(project / "runs" / "first") == before
    assert not list((result.folder.models / "descriptions").glob("encoder*"))
    own = fitted(project, "first", "tool2vec").retriever.encoder
    other = fitted(project, "second", "descriptions").retriever.encoder
    texts = ["please sort it", "the mean"]
    vectors = other.encode_queries(texts)
    assert (vectors == own.encode_queries(texts)).all()
    plain = load_encoder(SentenceConfig(model=str(project / "tiny")))
    assert (vectors != plain.encode_queries(texts)).any()
    again = run(str(result.folder.path), result.folder.path)
    assert again.did == ()


@pytest.mark.slow
def test_a_run_that_lies_elsewhere_counts_by_its_weights(project):
    first(project, tuned("tool2vec"))
    run(second(project), project / "runs" / "second")
    shutil.copytree(project / "runs" / "first", project / "runs" / "copy")
    moved = run(second(project, run="runs/copy"), project / "runs" / "second")
    assert moved.did == ("report",)
    faster = {**tuned("tool2vec"), "training": {**TRAINING, "learning_rate": 0.01}}
    first(project, faster)
    changed = run(second(project), project / "runs" / "second")
    assert changed.did[0] == "retrievers/descriptions"


def test_what_is_missing_is_told_before_anything_is_made(project):
    def refused(told):
        check_refused(second(project), project / "out", told)

    refused("first is not the folder of a run")
    first(project, {"type": "bm25"})
    refused("has no fine-tuned encoder.*toolbank run")
    first(project, tuned("tool2vec"))
    encoder = project / "runs" / "first" / "models" / "tool2vec" / "encoder"
    next(encoder.glob("*.safetensors")).unlink()
    refused("it has no weights as safetensors")
    shutil.rmtree(encoder)
    refused("has no fine-tuned encoder")


def test_one_of_several_is_named_with_the_prefixes_that_it_was_tuned_with(project):
    two = tuned("two", query_prefix="query: ")
    first(project, tuned("one"), two, {"type": "bm25"})
    for encoder, told in (
        ({}, r"several.*`retriever` to one of one, two"),
        ({"retriever": "bm25"}, r"bm25 has none.*one, two"),
        ({"retriever": "three"}, r"three has none.*one, two"),
        ({"retriever": "two", "query_prefix": ""}, r"'', .* tuned with 'query: '"),
    ):
        with pytest.raises(InputError, match=told):
            run(second(project, **encoder), project / "out")
    same = second(project, retriever="two")
    run(same, project / "out", until="retrievers")
    used = open_finder(project / "out", "descriptions").retriever
    assert used.config.encoder.query_prefix == "query: "
    with pytest.raises(InputError, match="which this run writes"):
        run(same, project / "runs" / "first")


@pytest.mark.parametrize(
    ("encoder", "told"),
    [
        ({"run": "runs/first", "model": "./tiny"}, "`run` takes the place of `model`"),
        ({"retriever": "tool2vec"}, "say which by `run`"),
    ],
)
def test_what_contradicts_itself_is_refused(project, encoder, told):
    path = recipe(project, "second", {"type": "descriptions", "encoder": encoder})
    with pytest.raises(InputError, match=told):
        load_recipe(path)
    path = recipe(project, "second", {"type": "descriptions", "encoder": "./tiny"})
    found = load_recipe(path).recipe.retrievers[-1]
    assert Path(found.encoder.model) == project / "tiny", "a name alone is a model"
