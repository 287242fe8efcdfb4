"""A slow run that lacks a package fails; one on a machine without a browser doesn't."""

import subprocess
import sys

import pytest

CONFTEST = "from tests.slow_skips import *"
SLOW = """
import pytest
pytestmark = pytest.mark.slow
def test_it():
    {skip}
"""
MISSING = 'pytest.importorskip("no_such_package")'


def run_slow(folder, source, *options):
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_one.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(
        [*command, *options, "-c", "/dev/null", "--rootdir", folder, folder],
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    "source",
    [
        SLOW.format(skip=MISSING),
        f"import pytest\n{MISSING}\n{SLOW.format(skip='pass')}",
        SLOW.format(skip="pass").replace(
            "def ", '@pytest.mark.skipif(True, reason="old")\ndef '
        ),
    ],
)
def test_a_slow_test_that_is_skipped_has_failed(source, tmp_path):
    code, said = run_slow(tmp_path, source, "-m", "slow")
    assert code in (1, 2)
    assert "dev-slow" in said
    assert run_slow(tmp_path, source)[0] in (0, 5)


@pytest.mark.parametrize("reason", ["there is no chromium here", "needs a GPU"])
def test_what_the_machine_lacks_is_skipped(reason, tmp_path):
    source = SLOW.format(skip=f"pytest.skip({reason!r})")
    assert run_slow(tmp_path, source, "-m", "slow")[0] == 0
