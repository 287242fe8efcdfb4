"""A user's own files lie where the system has such files."""

import sys

import pytest

from toolbank.system.outputs import cache_folder, config_folder


@pytest.mark.skipif(sys.platform != "linux", reason="XDG is the rule of Linux")
def test_the_folders_are_those_that_the_user_has_named(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert config_folder() == tmp_path / "settings" / "toolbank"
    assert cache_folder() == tmp_path / "caches" / "toolbank"
    assert not list(tmp_path.iterdir())
