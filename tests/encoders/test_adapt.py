import shutil

import torch
from safetensors.torch import load_file, save_file

from tests.tiny_models import tiny_encoder
from toolbank.encoders.location import (
    ADAPTED,
    FOLDER,
    SETTINGS,
    WEIGHTS,
    encoder_identity,
    merge_adapter,
)
from toolbank.encoders.model import load_model
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers.network import read_transformer
from toolbank.system.files import read_json, write_json

LAYER = "encoder.layer.1.attention.self.query"


def body_of(name):
    return load_model(name)[0].auto_model


def weights_of(body):
    return {name: values.clone() for name, values in body.state_dict().items()}


def test_a_low_rank_change_is_added_to_the_layers_that_it_names(tmp_path):
    body = body_of(str(tiny_encoder(tmp_path / "tiny", layers=2)))
    before = weights_of(body)
    down, up = torch.randn(4, 32), torch.randn(32, 4)
    parts = {"lora_A": down, "lora_B": up}
    write_json(tmp_path / SETTINGS, {"r": 4, "lora_alpha": 8})
    save_file(
        {f"base_model.model.{LAYER}.{k}.weight": v for k, v in parts.items()},
        tmp_path / WEIGHTS,
    )
    merge_adapter(body, tmp_path)
    after = body.state_dict()
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    assert changed == [f"{LAYER}.weight"]
    torch.testing.assert_close(
        after[changed[0]] - before[changed[0]], 2 * up @ down, atol=1e-5, rtol=0
    )


def test_every_method_reads_the_one_that_comes_along():
    plain, adapted = body_of(SentenceConfig().model), body_of(ADAPTED)
    kept = {
        name
        for name, values in plain.state_dict().items()
        if torch.equal(values, adapted.state_dict()[name])
    }
    named = {name.partition(".lora_")[0] for name in load_file(FOLDER / WEIGHTS)}
    assert len(plain.state_dict()) - len(kept) == len(named) > 0
    assert "embeddings.word_embeddings.weight" in kept
    adapted = body_of(ADAPTED).state_dict()
    from transformers import AutoModel

    body, _ = read_transformer(ADAPTED, lambda _: AutoModel)
    for name, values in body.state_dict().items():
        torch.testing.assert_close(values, adapted[name])


def test_another_adapter_is_another_encoder(tmp_path, monkeypatch):
    ours = encoder_identity(SentenceConfig(model=ADAPTED))
    assert ours.startswith(encoder_identity(SentenceConfig()))
    copy = shutil.copytree(FOLDER, tmp_path / "adapter")
    monkeypatch.setattr("toolbank.encoders.location.FOLDER", copy)
    assert encoder_identity(SentenceConfig(model=ADAPTED)) == ours
    settings = read_json(copy / SETTINGS)
    write_json(copy / SETTINGS, {**settings, "lora_alpha": 1})
    assert encoder_identity(SentenceConfig(model=ADAPTED)) != ours
