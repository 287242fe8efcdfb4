"""How well vectors tell the tasks of instructions apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders.base import cluster

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
