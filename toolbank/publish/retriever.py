"""The retriever of a run, and those that it builds on, beside the data."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.publish.recipe import without_places
from toolbank.system.errors import InputError
from toolbank.system.files import json_text, read_text
from toolbank.system.secrets import without_credentials

if TYPE_CHECKING:
    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import Recipe

MODELS = "models"

_MOST_SETTINGS = 1_000_000


@dataclass(frozen=True)
class Shown:
    """A published retriever: why this one; those that lie beside it; which have an encoder."""

    label: str
    why: str
    beside: tuple[str, ...] = ()
    encoders: tuple[str, ...] = ()


def write_retriever(
    recipe: Recipe,
    run: RunFolder,
    folder: Path,
    label: str = "",
    stale: Collection[str] = (),
) -> Shown | None:
    """Copy a fitted retriever and those that it builds on to models/ in a folder.

    Without a label it is the one that `toolbank search` takes. None where nothing is fitted; what is
    `stale`, fitted on an earlier bank, counts as not fitted.

    Raises:
        InputError: no retriever of that name is fitted.
    """
    from toolbank.run.result import choose_retriever

    fitted = [
        one
        for one in recipe.retrievers
        if one.label not in stale and (run.models / one.label).is_dir()
    ]
    named = [config.label for config in fitted]
    if label and label not in named:
        there = ", ".join(named) or "none"
        raise InputError(
            f"--retriever {label}: not fitted in {run.path}. There: {there}."
        )
    if not fitted:
        return None
    chosen = choose_retriever(run, fitted)
    why = "named by its publisher" if label else chosen.why
    label = label or chosen.label
    needs = {config.label: config.needs for config in recipe.retrievers}
    wanted = [label]
    for one in wanted:
        wanted += [need for need in needs[one] if need not in wanted]
    kinds = {config.label: config.type for config in fitted}
    for one in wanted:
        target = folder / MODELS / one
        shutil.copytree(run.models / one, target, copy_function=shutil.copyfile)
        _strip(target)
        if not (target / "README.md").is_file():
            text = _card(one, kinds[one])
            (target / "README.md").write_text(text, encoding="utf-8")
    encoders = [one for one in wanted if (folder / MODELS / one / "encoder").is_dir()]
    return Shown(label, why, tuple(wanted[1:]), tuple(encoders))


def _strip(folder: Path) -> None:
    """Take paths of this machine, and what URLs hold of credentials, out of settings and cards."""
    replaced: dict[str, str] = {}
    for path in sorted(folder.rglob("*.json")):
        if "config" in path.name and path.stat().st_size <= _MOST_SETTINGS:
            try:
                content = json.loads(read_text(path))
            except ValueError:
                continue
            clean = without_places(without_credentials(content))
            if clean != content:
                _compare(content, clean, replaced)
                path.write_text(json_text(clean), encoding="utf-8")
    for card in sorted(folder.rglob("README.md")):
        text = read_text(card)
        for old in sorted(replaced, key=len, reverse=True):
            text = text.replace(old, replaced[old])
        card.write_text(text, encoding="utf-8")


def _compare(old: Any, new: Any, replaced: dict[str, str]) -> None:
    """Note which texts became which."""
    if isinstance(old, dict):
        for key in old:
            _compare(old[key], new[key], replaced)
    elif isinstance(old, list):
        for before, after in zip(old, new, strict=True):
            _compare(before, after, replaced)
    elif old != new:
        replaced[old] = new


def _card(label: str, kind: str) -> str:
    return f"""---
library_name: toolbank
tags: {json.dumps(["tool-retrieval", kind])}
---
# {label}

A retriever of the type {kind}, fitted on this dataset; no weights were trained. Its settings are in
`config.json`.

```python
from pathlib import Path

from toolbank.retrievers import load_retriever

retriever = load_retriever(Path("."))  # this folder
indices, scores = retriever.search(["your request"], k=5)
print([retriever.tools[i] for i in indices[0] if i >= 0])
```
"""
