"""A slow run that lacks a package fails; one on a machine without a browser doesn't."""

import re
import subprocess
import sys

CONFTEST = "from tests.slow_skips import *"
SLOW = """
import pytest
pytestmark = pytest.mark.slow
def test_it():
    {skip}
"""
MISSING = 'pytest.importorskip("no_such_package")'


def run(folder, *options):
    """How each file's tests ended, and what was said."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA"]
    done = subprocess.run(
        [*command, *options, "-c", "/dev/null", "--rootdir", folder, folder],
        capture_output=True,
        text=True,
    )
    ended = re.findall(
        r"^(PASSED|FAILED|ERROR|SKIPPED) .*?test_(\w+)\.py", done.stdout, re.M
    )
    return {name: how for how, name in ended}, done.stdout


def test_a_slow_test_that_is_skipped_has_failed_unless_the_machine_lacks_it(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, source in {
        "inside": SLOW.format(skip=MISSING),
        "above": f"import pytest\n{MISSING}\n{SLOW.format(skip='pass')}",
        "marked": SLOW.format(skip="pass").replace(
            "def ", '@pytest.mark.skipif(True, reason="old")\ndef '
        ),
        "browser": SLOW.format(skip="pytest.skip('there is no chromium here')"),
        "gpu": SLOW.format(skip="pytest.skip('needs a GPU')"),
    }.items():
        (tmp_path / f"test_{name}.py").write_text(source)
    ended, said = run(tmp_path, "-m", "slow", "--continue-on-collection-errors")
    failed = {name for name, how in ended.items() if how in ("FAILED", "ERROR")}
    assert failed == {"inside", "above", "marked"}
    assert "dev-slow" in said
    ended, said = run(tmp_path)
    assert not {"FAILED", "ERROR"} & {*ended.values()}
