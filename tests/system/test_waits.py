"""Waits are read from any server's header in one way."""

from email.utils import formatdate

import pytest

from toolbank.system.net import read_seconds

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7),
        (" 0.5 ", 0.5),
        ("1m40s", 100),
        (formatdate(NOW + 100, usegmt=True), 100),
        (formatdate(NOW - 100, usegmt=True), 0),
        (str(NOW + 30), 30),
        (str(1000 * (NOW + 30)), 30),
        ("-3", 0),
        ("", None),
        ("soon", None),
        ("inf", None),
    ],
)
def test_a_wait_is_seconds_a_duration_or_a_moment(text, seconds):
    assert read_seconds(text, NOW) == (
        None if seconds is None else pytest.approx(seconds)
    )
