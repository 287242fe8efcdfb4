"""A user's own files lie where the system has such files."""

import sys

import pytest

from toolbank.system.outputs import config_folder


@pytest.mark.skipif(sys.platform != "linux", reason="XDG is the rule of Linux")
def test_the_folder_is_the_one_that_the_user_has_named(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    assert config_folder() == tmp_path / "settings" / "toolbank"
    assert not list(tmp_path.iterdir())
