import shutil
import subprocess
import sys

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from tests.tiny_models import OTHERS, tiny_encoder, tiny_other
from toolbank.encoders import load_encoder
from toolbank.encoders.config import OnnxConfig
from toolbank.encoders.sentence import SentenceConfig
from toolbank.system.errors import InputError

TEXTS = ["sum of rows", "the middle value of a very long list of house prices", "a", ""]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    words = " ".join(TEXTS).split()
    folder = tiny_encoder(tmp_path_factory.mktemp("encoder"), words=words)
    return load_encoder(SentenceConfig(model=str(folder), query_prefix="sum "))


@pytest.fixture(scope="module", params=["fp32", "int8"])
def exported(request, encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx") / request.param
    encoder.export(folder, request.param)
    config = OnnxConfig(type="onnx", model=str(folder), query_prefix="sum ")
    return request.param, load_encoder(config)


def test_vectors_are_those_of_torch(encoder, exported):
    precision, onnx = exported
    wanted, found = encoder.encode_queries(TEXTS), onnx.encode_queries(TEXTS)
    assert found.dtype == np.float32
    assert onnx.dimension == encoder.dimension
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    if precision == "fp32":
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    else:
        assert ((found * wanted).sum(axis=1) > 0.98).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["deberta", "bert", "e5"])
def test_any_architecture_can_be_written(tmp_path, kind):
    model = str(tiny_encoder(tmp_path / "model", kind))
    encoder = load_encoder(SentenceConfig(model=model))
    encoder.export(tmp_path / "onnx", "fp32")
    onnx = load_encoder(OnnxConfig(type="onnx", model=str(tmp_path / "onnx")))
    wanted = encoder.encode_documents(TEXTS)
    np.testing.assert_allclose(onnx.encode_documents(TEXTS), wanted, atol=1e-5)


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.slow
def test_other_models_are_cut_and_written_too(tmp_path, kind):
    model = str(tiny_other(tmp_path, kind, truncate_dim=20))
    encoder = load_encoder(SentenceConfig(model=model))
    encoder.export(tmp_path / "onnx", "fp32")
    onnx = load_encoder(OnnxConfig(type="onnx", model=str(tmp_path / "onnx")))
    wanted = encoder.encode_documents(TEXTS)
    library = SentenceTransformer(model)
    if kind == "no pad token":
        library.tokenizer.pad_token = "<unk>"
    own = library.encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(wanted, own, atol=1e-5)
    np.testing.assert_allclose(onnx.encode_documents(TEXTS), wanted, atol=1e-5)
    assert onnx.dimension == encoder.dimension == wanted.shape[1] == 20


def test_a_vector_does_not_hang_on_what_is_encoded_beside_it(exported):
    precision, onnx = exported
    together = onnx.embed(TEXTS)
    alone = np.concatenate([onnx.embed([text]) for text in TEXTS])
    atol = 0 if precision == "int8" else 1e-6
    np.testing.assert_allclose(together, alone, atol=atol, rtol=0)


def test_a_damaged_folder_is_named(tmp_path, exported):
    shutil.copytree(exported[1].config.model, tmp_path / "encoder")
    (tmp_path / "encoder" / "model.onnx").write_bytes(b"no model")
    config = OnnxConfig(type="onnx", model=str(tmp_path / "encoder"))
    with pytest.raises(InputError, match=r"can't be read as ONNX.*toolbank pack"):
        load_encoder(config)


def test_texts_are_cut_where_the_model_cuts_them(encoder, exported):
    precision, onnx = exported
    long = ["sum of rows " * 500]
    wanted = encoder.encode_documents(long)
    close = 1e-5 if precision == "fp32" else 0.2
    np.testing.assert_allclose(onnx.encode_documents(long), wanted, atol=close)


def test_it_runs_without_torch(exported):
    code = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers", "scipy", "sentence_transformers"):
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
from toolbank.encoders import load_encoder
from toolbank.encoders.config import OnnxConfig
config = OnnxConfig(type="onnx", model={exported[1].config.model!r})
print(load_encoder(config).encode_queries(["sum"]).shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == f"(1, {exported[1].dimension})", done.stderr
