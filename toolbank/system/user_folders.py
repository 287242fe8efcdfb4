"""Where a user's own files lie that belong to no run: settings of theirs, and what can be had again."""

from pathlib import Path

from platformdirs import user_cache_path, user_config_path

_NAME = "toolbank"


def config_folder() -> Path:
    """The folder of the user's settings, as the system has it (`XDG_CONFIG_HOME` on Linux).

    It need not exist yet.
    """
    return user_config_path(_NAME, appauthor=False)


def cache_folder() -> Path:
    """The folder of what may be deleted at any time (`XDG_CACHE_HOME` on Linux).

    It need not exist yet.
    """
    return user_cache_path(_NAME, appauthor=False)
