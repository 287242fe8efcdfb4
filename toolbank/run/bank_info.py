"""bank.json: what a bank is, and what it was made with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.system.files import sha256_file, write_json
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.recipe import Recipe
    from toolbank.run.folder import RunFolder


def write_bank_info(
    recipe: Recipe,
    folder: RunFolder,
    files: Sequence[Path],
    *,
    libraries: Sequence[str],
    origin: Mapping[str, Any],
    splits: Counter[Any],
    withheld: frozenset[str],
) -> Path:
    """Write bank.json for a bank that lies in `files`.

    `libraries` may change its content or the files' bytes, `origin` says where it comes from.
    `splits` counts the queries by split, those that use a tool of `withheld` under None: no query
    of training may use one; or those that share something with two splits, of which none may.
    """
    info: dict[str, Any] = {
        "layout": 1,
        "versions": {
            "toolbank": __version__,
            **{name: metadata.version(name) for name in libraries},
        },
        "name": recipe.name,
        "domain": recipe.domain_name,
        "seed": recipe.seed,
        **origin,
        "splits": {name: splits[name] for name in ("train", "validation", "test")},
    }
    if withheld:
        info["withheld"] = {
            "tools": sorted(withheld),
            "queries_left_out": splits[None],
        }
    elif splits[None]:
        info["straddling"] = {"by": recipe.split.by, "queries_left_out": splits[None]}
    info["sha256"] = {path.name: sha256_file(path) for path in files}
    path = folder.bank / "bank.json"
    write_json(path, info)
    return path
