import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

from tests.encoders.tiny_llama import tiny_llama
from tests.run.test_dataset import run, write_recipe
from tests.tiny_models import KINDS, tiny_encoder
from toolbank.encoders import AnyEncoder, load_encoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.papers.experiment import ONE_WORD
from toolbank.papers.layers import LayersConfig
from toolbank.papers.layers.encoder import HeadlessModel, put_in_prompt
from toolbank.search.run_search import load
from toolbank.system.errors import InputError

TEXTS = ["song", "play the song that I want to play now", "rain", "", "book a room"]


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return tiny_llama(tmp_path_factory.mktemp("llama"))


def encode(folder, texts=TEXTS, **settings):
    return load_encoder(
        LayersConfig(type="layers", model=str(folder), **settings)
    ).encode_queries(texts)


def unit(vector):
    return vector / np.linalg.norm(vector)


def states_alone(folder, text, layer):
    """What transformers gives for one text, without any padding."""
    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        out = AutoModel.from_pretrained(folder)(
            input_ids=tokens["input_ids"], output_hidden_states=True
        )
    return out.hidden_states[layer][0].numpy()


@pytest.mark.parametrize("layer", [0, 1, 3, -1, -2])
def test_a_vector_is_what_the_model_gives_for_the_text_alone(llama, layer):
    text = "book a room"
    states = states_alone(llama, text, layer)
    pooled = {"sum": states.sum(0), "mean": states.mean(0), "last": states[-1]}
    for pooling, vector in pooled.items():
        found = encode(llama, layer=layer, pooling=pooling)[-1]
        np.testing.assert_allclose(found, unit(vector), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_behind_the_prompt_stands_for_the_text(tmp_path, kind):
    folder = tiny_encoder(tmp_path, kind)
    found = encode(folder, pooling="mask", prompt="play {text}", max_length=12)
    # What is too long loses its end, and not the mask.
    for text, vector in [
        *zip(["song", "rain"], found[[0, 2]], strict=True),
        ("play the song that I want to play", found[1]),
    ]:
        states = states_alone(folder, f"play {text} [MASK]", -1)
        np.testing.assert_allclose(vector, unit(states[-2]), atol=1e-5)


def test_a_text_without_a_mask_is_told_and_no_other_token_taken(tmp_path, monkeypatch):
    folder = tiny_encoder(tmp_path)
    # One whose tokenizer doesn't know its mask where that stands.
    monkeypatch.setattr(HeadlessModel, "mask_token", "[mask")
    with pytest.raises(InputError, match=r"makes no mask of \[mask .*mean or last"):
        encode(folder, pooling="mask")


@pytest.mark.parametrize("pooling", ["mean", "sum", "last"])
@pytest.mark.parametrize("prompt", ["{text}", ONE_WORD])
def test_the_padded_side_makes_no_difference(llama, tmp_path, pooling, prompt):
    right = encode(llama, pooling=pooling, prompt=prompt)
    left = encode(tiny_llama(tmp_path / "left", "left"), pooling=pooling, prompt=prompt)
    without = tiny_llama(tmp_path / "none", pad=False)
    np.testing.assert_array_equal(left, right)
    unpadded = encode(without, pooling=pooling, prompt=prompt)
    np.testing.assert_allclose(unpadded, right, atol=1e-5)


MODELS = {"llama": tiny_llama, **dict.fromkeys(KINDS)}


@pytest.fixture(scope="module", params=MODELS)
def any_model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "llama":
        return tiny_llama(folder)
    return tiny_encoder(folder, request.param, layers=2)


@settings(deadline=None, max_examples=8)
@given(
    texts=st.lists(
        st.text("abc play .\n", max_size=40), min_size=1, max_size=6, unique=True
    ),
    batch=st.integers(1, 6),
    layer=st.integers(0, 2),
    pooling=st.sampled_from(["mean", "sum", "last"]),
)
def test_padding_and_batch_change_no_vector(any_model, texts, batch, layer, pooling):
    chosen = {"layer": layer, "pooling": pooling}
    together = encode(any_model, texts, batch_size=batch, **chosen)
    alone = [encode(any_model, [text], max_length=100, **chosen)[0] for text in texts]
    np.testing.assert_allclose(together, alone, atol=2e-5)


def test_a_text_that_is_too_long_is_cut_and_the_prompt_is_not(llama):
    short = "play the song"
    long = f"{short} {'rain ' * 500}"
    chosen = {"pooling": "last", "prompt": ONE_WORD}
    known = AutoTokenizer.from_pretrained(llama)
    room = len(known(ONE_WORD.replace("{text}", short))["input_ids"])
    cut, whole = encode(llama, [long, short], max_length=room, **chosen)
    np.testing.assert_allclose(cut, whole, atol=1e-5)


@pytest.mark.parametrize("text", ["playing songs on rainy days ", "雨の日に歌を流して"])
@pytest.mark.parametrize("most", range(44, 60))
def test_by_bytes_too_the_prompt_is_never_cut(text, most):
    known = Tokenizer(models.BPE())
    known.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    known.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=257, initial_alphabet=alphabet, show_progress=False
    )
    # A byte a token, but for two quotes: the prompt alone has them as one.
    known.train_from_iterator(['""'], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=known)
    (filled,) = put_in_prompt(tokenizer, [text * 50], ONE_WORD, most)
    before, after = ONE_WORD.split("{text}")
    assert filled.startswith(before)
    assert filled.endswith(after)
    assert (text * 50).startswith(filled.removeprefix(before).removesuffix(after))
    assert len(tokenizer(filled)["input_ids"]) <= most


def forget_mask(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.mask_token = None
    tokenizer.save_pretrained(folder)


@pytest.mark.parametrize(
    ("settings", "damage", "told"),
    [
        ({"layer": 4}, None, r"encoder\.layer: .* no layer 4.*up to 3"),
        ({"pooling": "mask"}, forget_mask, r"encoder\.pooling: .*mean or last"),
        ({"max_length": 5, "prompt": ONE_WORD}, None, r"encoder\.prompt: .*5 tokens"),
    ],
)
def test_what_a_model_lacks_is_refused(tmp_path, settings, damage, told):
    folder = tiny_llama(tmp_path)
    if damage:
        damage(folder)
    with pytest.raises(InputError, match=told):
        encode(folder, **settings)


def test_a_recipe_names_either_kind_and_an_old_one_is_read_as_before(llama):
    read = TypeAdapter(AnyEncoder).validate_python
    assert read("some-model") == SentenceConfig(model="some-model")
    assert read({"query_prefix": "q: "}) == SentenceConfig(query_prefix="q: ")
    assert read({"type": "sentence"}) == SentenceConfig()
    assert read({"type": "layers", "model": "m"}).pooling == "mean"
    with pytest.raises(ValidationError, match="layer"):
        read({"model": "m", "layer": 3})
    with pytest.raises(ValidationError, match=r"must contain \{text\} once"):
        read({"type": "layers", "model": "m", "prompt": "in one word:"})


def write_layers_recipe(folder, model, **more):
    write_recipe(folder)
    content = yaml.safe_load((folder / "theirs.yaml").read_text())
    encoder = {"type": "layers", "model": model, "layer": 2, "pooling": "mean"}
    content |= {"retrievers": [{"type": "tool2vec", "encoder": encoder, **more}]}
    path = folder / "layers.yaml"
    path.write_text(yaml.safe_dump(content))
    return str(path)


def test_a_recipe_runs_with_layers_as_the_encoder_of_tool2vec(tmp_path):
    folder = tiny_llama(tmp_path / "llama")
    path = write_layers_recipe(tmp_path, "./llama")
    result = run(path, tmp_path / "run")
    finder = load(tmp_path / "run", retriever="tool2vec")
    by_hand = load_encoder(
        LayersConfig(type="layers", model=str(folder), layer=2)
    ).encode_queries(["please sort it"])
    read = finder.retriever.encoder.encode_queries(["please sort it"])
    np.testing.assert_array_equal(read, by_hand)
    assert len(finder.search("please sort it", k=2)) == 2
    again = run(str(result.folder.path), result.folder.path)
    assert again.did == ()


def test_what_can_not_be_fine_tuned_is_refused_in_the_recipe(tmp_path):
    tiny_llama(tmp_path / "llama")
    path = write_layers_recipe(tmp_path, "./llama", training={"epochs": 1})
    with pytest.raises(InputError, match=r"layers\.yaml, line 10: .*`training`"):
        run(path, tmp_path / "run")
