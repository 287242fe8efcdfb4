"""Slow tests run whole: what is skipped among them has failed, unless the machine lacks it."""

import pytest

# What can't be installed by an extra: the words of a reason that names it.
MACHINES = ("chromium", "GPU", "../shared", "small disk", "package registry")


def _is_slow_run(config):
    return config.option.markexpr == "slow"


def _fail(report):
    """Turn a skip into a failure where a package would have prevented it."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    place, line, reason = report.longrepr
    if not any(word in reason for word in MACHINES):
        report.outcome = "failed"
        report.longrepr = (
            f"{place}:{line}: {reason}. Slow tests are not skipped: "
            "pip install '.[dev-slow]' -c constraints.txt"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if _is_slow_run(item.config):
        _fail(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if _is_slow_run(collector.config):
        _fail(report)
    return report
