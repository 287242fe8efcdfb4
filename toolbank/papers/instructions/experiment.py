"""Train an encoder on the tasks of instructions and evaluate it as PIE does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders import load_encoder
from toolbank.encoders.base import cluster
from toolbank.encoders.location import encoder_identity
from toolbank.encoders.model import save_model
from toolbank.encoders.sentence import SentenceConfig
from toolbank.evaluation.tables import Columns, lay_out
from toolbank.papers.experiment import (
    EXPERIMENT,
    PROMPTS,
    Pooling,
    Result,
    keeping_checkpoints,
)
from toolbank.papers.instructions.data import (
    parse_task,
    read_instructions,
    read_labelled,
    read_pairs,
)
from toolbank.papers.instructions.training import (
    InstructionsTraining,
    hold_back,
    train_on_instructions,
)
from toolbank.papers.layers import LayersConfig
from toolbank.system.folders import claim_folder, replacing
from toolbank.training.config import TrainingContext

_MAX_LENGTH = 128


def embed(
    model: str, prompt: str, pooling: Pooling, instructions: Sequence[str]
) -> NDArray[np.float32]:
    """Embed instructions with the last layer of a language model: unit vectors [n, d].

    Raises:
        InputError: the model cannot be downloaded or read.
    """
    config = LayersConfig(
        type="layers",
        model=model,
        pooling=pooling,
        prompt=prompt,
        max_length=_MAX_LENGTH,
        batch_size=64,
    )
    return load_encoder(config).encode_queries(instructions)


Vectors = NDArray[np.float32]


def cluster_figures(
    vectors: Vectors, labels: Sequence[str], seed: int
) -> dict[str, float]:
    """Cluster vectors [n, d] by k-means, a cluster per label, and compare with the labels [n].

    Figures are the adjusted Rand index, purity, homogeneity, and the mean silhouette of the
    clusters by Euclidean distance.
    """
    from sklearn.metrics import (
        adjusted_rand_score,
        homogeneity_score,
        silhouette_score,
    )

    count = len(set(labels))
    found = cluster(vectors, count, seed)
    several = 1 < len(set(found.tolist())) < len(vectors)
    return {
        "ari": float(adjusted_rand_score(labels, found)),
        "purity": purity(labels, found.tolist()),
        "homogeneity": float(homogeneity_score(labels, found)),
        "silhouette": float(silhouette_score(vectors, found)) if several else 0.0,
    }


def purity(labels: Sequence[str], clusters: Sequence[int]) -> float:
    """The share of items with the most frequent label of their cluster."""
    from sklearn.metrics.cluster import contingency_matrix

    return float(contingency_matrix(labels, clusters).max(axis=0).sum() / len(labels))


def pair_figures(
    left: Vectors, right: Vectors, same: Sequence[int]
) -> dict[str, float]:
    """Compute Spearman's correlation of cosines with whether pairs [n] share a task; and the AUC.

    Vectors [n, d] are unit vectors. Labels of two values have ties, so the correlation stays below
    1: a perfect order would give `most`.
    """
    from scipy.stats import spearmanr
    from sklearn.metrics import roc_auc_score

    cosines = (left * right).sum(axis=1)
    perfect = np.argsort(np.argsort(same, kind="stable"), kind="stable")
    return {
        "spearman": float(spearmanr(cosines, same).statistic),
        "most": float(spearmanr(perfect, same).statistic),
        "auc": float(roc_auc_score(same, cosines)),
    }


_HELD_SHARE, _HELD_LEAST = 0.1, 5


def train_instructions(
    data: Path,
    out: Path,
    model: str,
    prompt: str,
    training: InstructionsTraining,
    *,
    most: int,
    seed: int,
) -> Result:
    """Train an encoder on at most `most` instructions (0 for all), and write it to `out`.

    A tenth of the tasks with five instructions or more are held out, with all of their
    instructions, and clustered before and after. A training that was stopped resumes.

    Raises:
        InputError: the data, the encoder or TextBlob is missing, or `out` has other files.
    """
    instructions = read_instructions(data)[: most or None]
    tasks = [parse_task(text).merged() for text in instructions]
    claim_folder(out, EXPERIMENT)
    held = hold_back(tasks, _HELD_SHARE, _HELD_LEAST, seed)
    kept = [not is_held for is_held in held]
    train_texts, train_tasks = [*compress(instructions, kept)], [*compress(tasks, kept)]
    held_texts, held_tasks = [*compress(instructions, held)], [*compress(tasks, held)]

    def measure(model: str) -> dict[str, float]:
        vectors = embed(model, PROMPTS[prompt], "mean", held_texts)
        return cluster_figures(vectors, [task.label for task in held_tasks], seed)

    before = measure(model) if len(set(held_tasks)) > 1 else {}
    settings = {
        "model": model,
        "prompt": prompt,
        "seed": seed,
        "most": most,
        "training": training.model_dump(mode="json"),
    }
    weights = encoder_identity(SentenceConfig(model=model))
    with keeping_checkpoints(out, settings, weights, instructions) as checkpoints:
        encoder, trained = train_on_instructions(
            model,
            training,
            train_texts,
            train_tasks,
            PROMPTS[prompt],
            TrainingContext(seed, checkpoints=checkpoints),
        )
        with replacing(out, EXPERIMENT) as made:
            save_model(encoder, made)
        after = measure(str(out.resolve())) if before else {}
    record = {
        "experiment": "instructions",
        "labels": "derived from the instructions by parts of speech",
        **settings,
        "instructions": len(train_texts),
        "tasks": len(set(train_tasks)),
        "rows": trained.examples,
        "steps": trained.steps,
        "held_back": {
            "instructions": len(held_texts),
            "tasks": len(set(held_tasks)),
            "before": before,
            "after": after,
        },
    }
    lines = [
        f"{record['instructions']:,} instructions of {record['tasks']:,} tasks, whose labels are "
        "derived from them;",
        f"held out: {len(held_texts):,} instructions of {len(set(held_tasks)):,} tasks",
    ]
    for when, figures in (("before", before), ("after", after)):
        cells = [f"{name} {100 * value:.2f}" for name, value in figures.items()]
        lines.append(f"  {when:<6} {', '.join(cells)}")
    lines.append(f"in a recipe: encoder: {{model: ./{out.name}}}")
    return Result(record, "\n".join(lines))


_COLUMNS = {
    "ari": "ARI",
    "purity": "purity",
    "homogeneity": "homog.",
    "silhouette": "silh.",
    "spearman": "Spearman",
    "auc": "AUC",
}


def evaluate_instructions(
    data: Path,
    models: Sequence[str],
    prompts: Sequence[str],
    pooling: Pooling,
    seed: int,
) -> Result:
    """Cluster the instructions of eft_test.jsonl, and compare the pairs, by each model and prompt.

    Raises:
        InputError: a file or a model is missing, or cannot be read.
    """
    instructions, labels = read_labelled(data)
    left, right, same = read_pairs(data)
    rows, most = [], 0.0
    for model in models:
        for prompt in prompts:
            vectors, *paired = (
                embed(model, PROMPTS[prompt], pooling, texts)
                for texts in (instructions, left, right)
            )
            compared = pair_figures(paired[0], paired[1], same)
            most = compared.pop("most")
            clustered = cluster_figures(vectors, labels, seed)
            rows.append({"model": model, "prompt": prompt, **clustered, **compared})
    record = {
        "experiment": "instructions",
        "pooling": pooling,
        "instructions": len(labels),
        "tasks": len(set(labels)),
        "pairs": len(same),
        "most_spearman": most,
        "rows": rows,
    }
    cells = [tuple(f"{row[name]:.4f}" for name in _COLUMNS) for row in rows]
    table = lay_out(
        [f"{Path(str(row['model'])).name}, {row['prompt']}" for row in rows],
        [Columns(tuple(_COLUMNS.values()), tuple(cells))],
    )
    head = (
        f"{record['instructions']:,} instructions of {record['tasks']} tasks, {record['pairs']:,} "
        f"pairs; labels of two values let Spearman be {most:.4f} at most"
    )
    return Result(record, f"{head}\n{table}")
