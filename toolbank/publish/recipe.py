"""The recipe of a run as others may read it: without what is only this machine's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel

from toolbank.config.base import is_transport
from toolbank.system.files import read_text, write_text
from toolbank.system.secrets import mask_command, without_credentials, without_users
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import Recipe


def write_recipe(recipe: Recipe) -> str:
    """The recipe as YAML, with all that shapes its result.

    Addresses of models and all else that says only how a result is come by are left out. URLs
    have lost user names, passwords and query strings; of a path there is the last name, and three stars stand
    for what of a server's command may be a secret.
    """
    unused = set(recipe.unused_keys)
    settings = {key: value for key, value in _dump(recipe).items() if key not in unused}
    for source in settings.get("sources", ()):
        if isinstance(command := source.get("command"), list):
            source["command"] = mask_command(command)
    text = yaml.safe_dump(
        without_credentials(settings), sort_keys=False, allow_unicode=True, width=88
    )
    return (
        f"# What toolbank {__version__} made this dataset by. Paths are names alone, and what says "
        f"only how a model\n# is reached is left out.\n{text}"
    )


def write_prompts(recipe: Recipe, run: RunFolder, folder: Path) -> None:
    """Copy the templates, examples, schemas of replies and rules that a run was made with.

    Those of engines that read no prompts are not among them. The files of a stage that is to be
    run again are those that its results were made with.

    Raises:
        ToolbankError: the folder can't be written to.
    """
    from toolbank.run.stages import make_stages

    noted = run.read_assets()
    for stage in make_stages(recipe, run):
        if not stage.reads_assets or stage.name not in noted:
            continue
        used, is_done = noted[stage.name] or {}, stage.is_done
        for asset in stage.all_assets():
            if is_done or used.get(asset.title) == asset.sha256:
                target = folder / asset.kind / asset.name
                write_text(target, without_users(read_text(asset.path)))


def without_places(value: Any) -> Any:
    """JSON in which a path of this machine is its last name."""
    if isinstance(value, dict):
        return {key: without_places(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_places(part) for part in value]
    return _name(value) if isinstance(value, str) and _is_place(value) else value


def _dump(config: BaseModel) -> dict[str, Any]:
    as_json = config.model_dump(mode="json")
    return {
        name: _publish(value, as_json[name])
        for name, value in config
        if not is_transport(config, name)
    }


def _publish(value: Any, as_json: Any) -> Any:
    if isinstance(value, Path):
        return value.name
    if isinstance(value, BaseModel):
        # An encoder by its name alone is one all the same.
        return _dump(value) if isinstance(as_json, dict) else without_places(as_json)
    if isinstance(value, tuple | list):
        pairs = zip(value, as_json, strict=True)
        return [_publish(one, one_as_json) for one, one_as_json in pairs]
    if isinstance(value, dict):
        entries = zip(value.values(), as_json.items(), strict=True)
        return {key: _publish(one, json) for one, (key, json) in entries}
    return without_places(as_json)


def _is_place(text: str) -> bool:
    """Whether a text is the path of something here, or of what lay in a folder that is here."""
    if not text.startswith(os.sep) or len(text) > 4096 or "\0" in text:
        return False
    path = Path(text)
    return len(path.parts) > 2 and (path.exists() or path.parent.is_dir())


def _name(text: str) -> str:
    return Path(text).name
