"""The key that an endpoint wants; it is read from the environment and never written anywhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toolbank.llm.engines.openai.errors import NO_KEY
from toolbank.system.addresses import is_private
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig


def read_key(config: EngineConfig) -> str:
    """The key from the environment variable that the recipe names.

    Raises:
        InputError: it is not set though the endpoint is a public one, or no key looks like it.
    """
    key = os.environ.get(config.api_key_env, "").strip()
    if key.isascii() and key.isprintable() and key:
        return key
    if key:
        raise InputError(
            f"{config.api_key_env}: the key in this environment variable holds characters "
            "that no key has. Copy it again."
        )
    if is_private(config.base_url):
        return NO_KEY
    raise InputError(
        f"{config.api_key_env}: this environment variable is not set, and "
        f"{config.base_url} needs a key. Run `export {config.api_key_env}=...`, or name another "
        "variable with api_key_env, or use an engine that needs none (recorded, rules)."
    )
