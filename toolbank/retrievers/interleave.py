"""One list of several: first hits of every list, then second hits, without repeats."""

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import Hits, by_rank


def interleave(
    lists: NDArray[np.int64], lengths: NDArray[np.int64], n_tools: int, k: int
) -> Hits:
    """Interleave each request's lists of hits, as ProTIP is evaluated (arXiv 2312.10332, 4.3).

    `lists` [n, most, depth] are indices of tools, best first and none twice in a list; the
    first `lengths` [n] lists of each request count, at least one. Its depth is at least
    min(k, n_tools); a list with fewer hits is filled up with -1.

    Returns:
        Indices and scores, [n, min(k, n_tools)]; the score of rank r, from 1, is 1 / r. Where
        the lists have fewer tools, the rest is -1 and -inf.
    """
    n, most, depth = lists.shape
    k = min(k, n_tools)
    never = most * depth
    # The last column takes the padding and is cut off.
    places = np.full((n, n_tools + 1), never, dtype=np.int64)
    for number in range(most):
        hits = lists[:, number]
        place = np.where(
            (number < lengths)[:, None], np.arange(depth) * most + number, never
        )
        known = np.take_along_axis(places, hits, axis=1)
        np.put_along_axis(places, hits, np.minimum(known, place), axis=1)
    places = places[:, :n_tools]
    indices = np.argsort(places, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(places, indices, axis=1) < never
    return by_rank(np.where(found, indices, -1))
