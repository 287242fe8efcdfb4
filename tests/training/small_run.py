"""A small run to train by the command line: a dataset, a tiny encoder, and a recipe."""

import json
import os
import sys
from pathlib import Path

import yaml

from tests.tiny_models import tiny_encoder
from tests.world import write_dataset

ROOT = Path(__file__).parents[2]
VERBS = ("play", "stop", "open", "close", "buy", "send", "track", "paint")
THINGS = ("song", "door", "parcel", "lawn", "car", "room", "mail", "book")
WAYS = ("{} the {}", "please {} my {} now")


def write_recipe(folder, *, dropout=0.0, retrievers=None, **training):
    """Write what a run needs to a folder, and give the recipe's path.

    32 tools, each used by 3 queries and more; 64 train queries, 32 of validation, 32 of test.
    Each of `retrievers` with an `encoder` has the tiny one.
    """
    data = folder / "data"
    pairs = [(v, t) for v in VERBS for t in THINGS]
    names = {(v, t): f"{v}.{t}" for v, t in pairs if (VERBS.index(v) + len(t)) % 2}
    names |= {(v, t): f"{v}.any" for v, t in pairs if (v, t) not in names}
    tools = [
        {"name": name, "description": name.replace(".", " the ")}
        for name in sorted(set(names.values()))
    ]
    queries = [
        {
            "query": way.format(verb, thing),
            "tools": [names[verb, thing]],
            "split": ("train", "validation", "test", "train")[(i + j) % 4],
        }
        for i, (verb, thing) in enumerate(pairs)
        for j, way in enumerate(WAYS)
    ]
    write_dataset(data, tools, queries)
    encoder = tiny_encoder(folder / "encoder", dropout=dropout)
    recipe = {
        "name": "small",
        "dataset": {"type": "jsonl", "path": str(data), "ordered": True},
        "baselines": False,
        "retrievers": [
            {
                **config,
                **({"encoder": {"model": str(encoder)}} if "encoder" in config else {}),
            }
            for config in retrievers
            or [
                {"type": "bm25"},
                {
                    "type": "mlc",
                    "encoder": {},
                    "training": {"learning_rate": 1e-3, **training},
                },
            ]
        ],
        "evaluate": {"resamples": 100},
    }
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path


def command(*arguments, processes=1, module="toolbank"):
    """A command of toolbank's, by torchrun where there are to be several processes."""
    start = [sys.executable, "-m"]
    if processes > 1:
        start += ["torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
        start += ["--nproc-per-node", str(processes), "-m"]
    return [*start, module, *map(str, arguments)]


def environment():
    """One thread a process, and nothing but this machine."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }


def read_weights(run, label="mlc"):
    """All tensors of a saved retriever, by file and name."""
    from safetensors.torch import load_file

    folder = run / "models" / label
    return {
        f"{path.relative_to(folder)}:{name}": tensor.float()
        for path in sorted(folder.rglob("*.safetensors"))
        for name, tensor in load_file(path).items()
    }


def read_metrics(run):
    return json.loads((run / "metrics.json").read_text())
