"""The table of PIE: clusters of tasks and pairs of intentions, by model and prompt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolbank.encoders.instructions.data import read_labelled, read_pairs
from toolbank.encoders.instructions.metrics import cluster_figures, pair_figures
from toolbank.encoders.instructions.prompts import PROMPTS
from toolbank.encoders.layers.config import Pooling
from toolbank.evaluation.layout import Columns, lay_out
from toolbank.experiments.instructions.embed import embed
from toolbank.experiments.result import Result

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
