"""Settings that all tests share."""

import gc
import os
import signal
import sys
import tempfile
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import settings

from tests.slow_skips import (  # noqa: F401
    pytest_make_collect_report,
    pytest_runtest_makereport,
)

# Tests run beside each other: more threads than processors wait for each other at every step
# of a small model.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What the user of this machine has set or named says nothing here, in children neither.
SETTINGS = tempfile.TemporaryDirectory(prefix="toolbank-tests-")
os.environ["XDG_CONFIG_HOME"] = SETTINGS.name
os.environ.pop("TOOLBANK_GRANTS", None)
# Encoders are read from the user's cache, whatever home a test sets.
_CACHES = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
os.environ.setdefault("HF_HOME", str(_CACHES / "huggingface"))

# A kill loses nothing of what the system holds of a file; only a loss of power would, which no test makes.
os.fsync = lambda descriptor: None

# Each run draws others: many quick runs see more than one long one.
settings.register_profile("toolbank", deadline=None, max_examples=25)
settings.load_profile("toolbank")

# A shell ignores SIGINT for what it starts in the background, and children inherit that:
# the commands that the tests interrupt would not hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    help_text = "write what is read of tests/corpus now as expected"
    parser.addoption("--update-corpus", action="store_true", help=help_text)


@pytest.fixture
def update_corpus(request):
    return request.config.getoption("--update-corpus")


@pytest.fixture(autouse=True, scope="module")
def what_is_there_is_not_searched_for_garbage():
    """Each training searches all objects for garbage, and the libraries' are a million."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def install_package(tmp_path, monkeypatch):
    """Lay a package with entry points of a group where an installed one would lie."""
    from toolbank.run.recipe import recipe_schema

    monkeypatch.syspath_prepend(tmp_path)

    def lay(group, module, source, **kinds):
        (tmp_path / f"{module}.py").write_text(dedent(source))
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        name = module.replace("_", "-")
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        lines = [f"{kind} = {module}:{attribute}" for kind, attribute in kinds.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))
        monkeypatch.delitem(sys.modules, module, raising=False)
        recipe_schema.cache_clear()

    yield lay
    recipe_schema.cache_clear()


@pytest.fixture
def server():
    """An endpoint whose model answers well."""
    from tests.servers.chat import ChatServer
    from tests.world import good

    with ChatServer(good) as server:
        yield server
