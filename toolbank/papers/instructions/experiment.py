"""Train an encoder on the tasks of instructions and evaluate it as PIE does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders import load_encoder
from toolbank.encoders.base import cluster
from toolbank.encoders.location import encoder_identity
from toolbank.encoders.model import save_model
from toolbank.encoders.sentence import SentenceConfig
from toolbank.evaluation.tables import Columns, lay_out
from toolbank.papers.experiment import EXPERIMENT, PROMPTS, Pooling, Result
from toolbank.papers.instructions.data import (
    Task,
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
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json
from toolbank.system.folders import claim_folder, replacing
from toolbank.training.config import TrainingContext

_MAX_LENGTH = 128


def embed(
    model: str, prompt: str, pooling: Pooling, instructions: Sequence[str]
) -> NDArray[np.float32]:
    """Unit vectors [n, d] of instructions, of the last layer of any language model.

    Raises:
        InputError: the model can't be had or read.
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
    """K-means of vectors [n, d] into as many clusters as there are labels [n], against these.

    The adjusted Rand index; purity, the share of instructions that have their cluster's most
    frequent label; homogeneity; and the mean silhouette of the clusters, by Euclidean distance.
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
    """The share of items whose label is the most frequent one of their cluster."""
    from sklearn.metrics.cluster import contingency_matrix

    return float(contingency_matrix(labels, clusters).max(axis=0).sum() / len(labels))


def pair_figures(
    left: Vectors, right: Vectors, same: Sequence[int]
) -> dict[str, float]:
    """Spearman's correlation of cosines with whether pairs [n] are of one task; and the AUC.

    Vectors [n, d] are unit vectors. Labels of two values are tied, which holds the correlation
    below 1: `most` is what a perfect order would come to.
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


_CHECKPOINTS, _SETTINGS = "checkpoints", "settings.json"
_HELD_SHARE, _HELD_LEAST = 0.1, 5


@dataclass(frozen=True)
class Settings:
    """What is trained, and on how much: `most` instructions, 0 for all."""

    model: str
    prompt: str
    training: InstructionsTraining
    seed: int
    most: int


def train_instructions(data: Path, out: Path, settings: Settings) -> Result:
    """Train an encoder, and leave it in `out`, from which a recipe's `encoder.model` reads it.

    A tenth of the tasks with five instructions or more are held back, with all that is of them,
    and clustered before and after. A training that was stopped goes on from its checkpoint.

    Raises:
        InputError: the data, the encoder or TextBlob is missing, or `out` holds something else.
    """
    instructions = read_instructions(data)[: settings.most or None]
    tasks = [parse_task(text).merged() for text in instructions]
    _check_out(out, settings, instructions)
    held = hold_back(tasks, _HELD_SHARE, _HELD_LEAST, settings.seed)
    chosen = [i for i, is_held in enumerate(held) if not is_held]
    left = [i for i, is_held in enumerate(held) if is_held]

    def measure(model: str) -> dict[str, float]:
        texts = [instructions[i] for i in left]
        vectors = embed(model, PROMPTS[settings.prompt], "mean", texts)
        labels = [tasks[i].label for i in left]
        return cluster_figures(vectors, labels, settings.seed)

    before = measure(settings.model) if len({tasks[i] for i in left}) > 1 else {}
    model, trained = train_on_instructions(
        settings.model,
        settings.training,
        [instructions[i] for i in chosen],
        [tasks[i] for i in chosen],
        PROMPTS[settings.prompt],
        TrainingContext(settings.seed, checkpoints=out / _CHECKPOINTS),
    )
    with replacing(out, EXPERIMENT) as made:
        save_model(model, made)
    record = {
        "experiment": "instructions",
        "labels": "derived from the instructions by parts of speech",
        **_describe(settings),
        "instructions": len(chosen),
        "tasks": len({tasks[i] for i in chosen}),
        "rows": trained.examples,
        "steps": trained.steps,
        "held_back": {
            "instructions": len(left),
            "tasks": len({tasks[i] for i in left}),
            "before": before,
            "after": measure(str(out.resolve())) if before else {},
        },
    }
    result = Result(record, _tell(record, out, [tasks[i] for i in left]))
    result.write(out)
    shutil.rmtree(out / _CHECKPOINTS, ignore_errors=True)
    return result


def _describe(settings: Settings) -> dict[str, object]:
    return {
        "model": settings.model,
        "prompt": settings.prompt,
        "seed": settings.seed,
        "most": settings.most,
        "training": settings.training.model_dump(mode="json"),
    }


def _check_out(out: Path, settings: Settings, instructions: Sequence[str]) -> None:
    claim_folder(out, EXPERIMENT)
    read = sha256(json.dumps(instructions).encode()).hexdigest()
    given = {
        **_describe(settings),
        "weights": encoder_identity(SentenceConfig(model=settings.model)),
        "instructions_sha256": read,
    }
    file = out / _SETTINGS
    if (out / _CHECKPOINTS).is_dir() and file.is_file() and read_json(file) != given:
        raise InputError(
            f"{out}: a training with other settings, weights or data was stopped there, as "
            f"{file.name} says. Give the same to go on with it, or another folder."
        )
    with replacing(out, EXPERIMENT) as made:
        write_json(made / _SETTINGS, given)


def _tell(record: dict[str, object], out: Path, held: Sequence[Task]) -> str:
    found: dict[str, dict[str, float]] = record["held_back"]  # type: ignore[assignment]
    lines = [
        f"{record['instructions']:,} instructions of {record['tasks']:,} tasks, whose labels are "
        "derived from them;",
        f"held back: {len(held):,} instructions of {len(set(held)):,} tasks",
    ]
    for when in ("before", "after"):
        cells = [f"{name} {100 * value:.2f}" for name, value in found[when].items()]
        lines.append(f"  {when:<6} {', '.join(cells)}")
    return "\n".join([*lines, f"in a recipe: encoder: {{model: ./{out.name}}}"])


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
        InputError: a file or a model is missing, or can't be read.
    """
    labelled, pairs = read_labelled(data), read_pairs(data)
    rows, most = [], 0.0
    for model in models:
        for prompt in prompts:
            vectors, left, right = (
                embed(model, PROMPTS[prompt], pooling, texts)
                for texts in (labelled.instructions, pairs.left, pairs.right)
            )
            compared = pair_figures(left, right, pairs.same)
            most = compared.pop("most")
            clustered = cluster_figures(vectors, labelled.labels, seed)
            rows.append({"model": model, "prompt": prompt, **clustered, **compared})
    record = {
        "experiment": "instructions",
        "pooling": pooling,
        "instructions": len(labelled.labels),
        "tasks": len(set(labelled.labels)),
        "pairs": len(pairs.same),
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
