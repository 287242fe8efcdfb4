"""Train an adapter of the encoder `toolbank`: LoRA over all-MiniLM-L6-v2, by peft.

    pip install peft
    python benchmarks/requests/adapter.py BANKS TEXTS OUT [--leave-out numpy]

BANKS has a folder with tools.parquet, as crawled, for each of numpy, aws and pandas; TEXTS has written/
and asks/. Trained on all requests and asks of these APIs with the descriptions of the tools that they
use; of siblings that share an ask, one is drawn. OUT gets what toolbank/encoders/adapter holds: half of the
change that was trained (WiSE-FT, arXiv 2109.01903), or so much of it as `--kept` says.
`--leave-out` trains on the other two, so that OUT can be tested on an API that it has not seen;
`--full` changes all weights in place of an adapter, to compare with.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from development import make_development
from natural import whole

from toolbank.bank.files import read_tools
from toolbank.encoders.finetune import make_loss, make_rows
from toolbank.encoders.finetune_data import make_texts
from toolbank.encoders.location import SETTINGS, hub_name
from toolbank.encoders.model import load_model, save_model
from toolbank.encoders.sentence import EncoderTraining, SentenceConfig
from toolbank.retrievers.base import title_and_summary
from toolbank.retrievers.relevance import train_relevance
from toolbank.system.files import read_json, write_json
from toolbank.training.config import TrainingContext
from toolbank.training.run import seed_weights, train_encoder

APIS = ("numpy", "aws", "pandas")
ENCODER = SentenceConfig()


def read_texts(apis: list[str], banks: Path, texts: Path):
    """The requests and asks of these APIs with all their tools' descriptions; which are asks."""
    queries, uses, is_ask, documents = [], [], [], []
    for api in apis:
        tools = read_tools(banks / api / "tools.parquet")
        bank = whole(make_development(api, tools, texts))
        train = train_relevance(bank)
        queries += train.queries
        uses += [[len(documents) + i for i in row if i >= 0] for row in train.tools]
        is_ask += [i >= len(bank.split("train")) for i in range(len(train.queries))]
        documents += [title_and_summary(tool) for tool in tools]
    padded = np.full((len(uses), max(map(len, uses))), -1, np.int64)
    for row, used in zip(padded, uses, strict=True):
        row[: len(used)] = used
    return make_texts(ENCODER, queries, padded, documents), np.array(is_ask)


def draw_siblings(rows: np.ndarray, texts, is_ask: np.ndarray, seed: int) -> np.ndarray:
    """One pair of each kind for an ask, whose siblings' descriptions say the same."""
    rows = np.random.default_rng(seed).permutation(rows)
    kind = rows[:, 1] < texts.n_queries
    _, first = np.unique(2 * rows[:, 0] + kind, return_index=True)
    kept = ~is_ask[rows[:, 0]]
    kept[first] = True
    return rows[kept]


def add_adapter(model, rank: int, alpha: int) -> None:
    from peft import LoraConfig, TaskType

    model.add_adapter(
        LoraConfig(
            task_type=TaskType.FEATURE_EXTRACTION,
            r=rank,
            lora_alpha=alpha,
            target_modules=["query", "key", "value", "dense"],
            exclude_modules=r"pooler\..*",
        )
    )


def save_adapter(model, folder: Path, kept: float) -> None:
    model[0].auto_model.save_pretrained(folder)
    settings = read_json(folder / SETTINGS)
    settings["lora_alpha"] *= kept
    # peft has put down the folder of this machine, and a set without order.
    settings["base_model_name_or_path"] = hub_name(ENCODER.model)
    settings["target_modules"].sort()
    write_json(folder / SETTINGS, settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("banks", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--leave-out", choices=APIS)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--alpha", type=int, default=16)
    parser.add_argument("--kept", type=float, default=0.5)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--epochs", type=float, default=0.5)
    parser.add_argument("--pairs", nargs="+", default=["query-description"])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    apis = [api for api in APIS if api != given.leave_out]
    texts, is_ask = read_texts(apis, given.banks, given.texts)
    training = EncoderTraining(
        epochs=given.epochs,
        pairs=tuple(given.pairs),
        learning_rate=given.rate,
        max_length=64,
    )
    model = load_model(ENCODER.model)
    length, model.max_seq_length = model.max_seq_length, training.max_length
    seed_weights(given.seed)
    if not given.full:
        add_adapter(model, given.rank, given.alpha)
    rows, _ = make_rows(ENCODER, training, texts, given.seed)
    rows = draw_siblings(rows, texts, is_ask, given.seed)
    begun, cpu = time.monotonic(), time.process_time()
    train_encoder(
        model,
        texts.texts,
        rows,
        make_loss(model, training, rows, texts),
        training,
        TrainingContext(seed=given.seed),
    )
    took, cpu = time.monotonic() - begun, time.process_time() - cpu
    model.max_seq_length = length
    if given.full:
        save_model(model, given.out)
    else:
        save_adapter(model, given.out, given.kept)
    print(
        f"{given.out}: {', '.join(apis)}; {(~is_ask).sum()} requests, {is_ask.sum()} asks, "
        f"{len(rows)} pairs; {took:.0f} s, CPU {cpu:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
