"""Fine-tuning beside sentence-transformers' Trainer as it is: how fast, and how well it finds.

    python benchmarks/training/finetune.py BANK --epochs 1 --seeds 0 1 2

BANK is one of benchmarks/requests/development.py. all-MiniLM-L6-v2 is fine-tuned on its train queries
and asks by either side, with the same pairs, loss, batch size, learning rate and seeds; a Tool2Vec
with the trained encoder is asked the queries of its development set. A line a training: pairs per
second and seconds an epoch by the clock, CPU seconds, and Recall@5.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import (
    MultipleNegativesRankingLoss,
)

from toolbank.bank.bank import Bank
from toolbank.encoders.finetune import fine_tune, make_rows
from toolbank.encoders.finetune_data import make_texts
from toolbank.encoders.model import load_model, save_model
from toolbank.encoders.ranking_loss import MaskedRankingLoss, SharedTools
from toolbank.encoders.sentence import EncoderTraining, SentenceConfig
from toolbank.retrievers import RETRIEVERS, create_retriever
from toolbank.retrievers.base import title_and_summary
from toolbank.retrievers.relevance import find_relevance, mean_recall, train_relevance
from toolbank.training.config import TrainingContext

ENCODER = SentenceConfig()


class LibrarysForward(MaskedRankingLoss):
    """The same loss, its texts embedded as the library does."""

    forward = MultipleNegativesRankingLoss.forward


def train_unmodified(training, texts, seed, folder):
    """By the library's Trainer with its own defaults, but for what both sides are told."""
    model = load_model(ENCODER.model)
    model.max_seq_length = min(model.max_seq_length, training.max_length)
    rows, _ = make_rows(ENCODER, training, texts, seed)
    columns = {
        name: [texts.texts[place] for place in rows[:, i]]
        for i, name in enumerate(("anchor", "positive"))
    }
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        num_train_epochs=training.epochs,
        per_device_train_batch_size=training.batch_size,
        learning_rate=training.learning_rate,
        weight_decay=training.weight_decay,
        warmup_steps=training.warmup,
        seed=seed,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = SentenceTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_dict({**columns, "label": list(range(len(rows)))}),
        loss=LibrarysForward(model, SharedTools(rows, texts.tools), training.scale),
    )
    trainer.train()
    save_model(model, folder)
    return len(rows)


def train_ours(training, texts, seed, folder):
    """As `training` of a recipe does it."""
    context = TrainingContext(seed=seed)
    encoder, _, counts = fine_tune(ENCODER, training, texts, context, None, "ours")
    encoder.save(folder)
    return counts["pairs"]


SIDES = {"unmodified": train_unmodified, "ours": train_ours}


def take_recall(bank, folder):
    config = RETRIEVERS.find("tool2vec", "benchmark").config.model_validate(
        {"type": "tool2vec", "encoder": {"model": str(folder)}}
    )
    retriever = create_retriever(config)
    retriever.fit(bank)
    wanted = find_relevance(bank, bank.split("test"))
    return mean_recall(retriever.search(wanted.queries, 5), wanted)


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bank", type=Path)
    parser.add_argument("--epochs", type=float, default=1)
    parser.add_argument(
        "--pairs", nargs="+", default=["query-query", "query-description"]
    )
    parser.add_argument("--precision", default="auto", help="of ours")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    given = parser.parse_args()
    training = EncoderTraining(
        epochs=given.epochs, pairs=tuple(given.pairs), precision=given.precision
    )
    bank = Bank.load(given.bank)
    train = train_relevance(bank)
    documents = [title_and_summary(tool) for tool in bank.tools]
    texts = make_texts(ENCODER, train.queries, train.tools, documents)
    recalls = {side: [] for side in given.sides}
    for seed in given.seeds:
        for side in given.sides:
            with tempfile.TemporaryDirectory() as name:
                cpu, begun = cpu_seconds(), time.monotonic()
                pairs = SIDES[side](training, texts, seed, Path(name))
                took, cpu = time.monotonic() - begun, cpu_seconds() - cpu
                recalls[side].append(take_recall(bank, name))
            print(
                f"{side}, seed {seed}: {pairs * given.epochs / took:.1f} pairs/s, "
                f"{took / given.epochs:.0f} s an epoch, CPU {cpu / given.epochs:.0f} s, "
                f"Recall@5 {100 * recalls[side][-1]:.1f}",
                flush=True,
            )
    for side, values in recalls.items():
        print(f"{side}: mean Recall@5 {100 * np.mean(values):.1f}")


if __name__ == "__main__":
    main()
