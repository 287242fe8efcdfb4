from email.utils import formatdate

import pytest

from toolbank.system.errors import InputError
from toolbank.system.net import (
    checked_address,
    is_loopback,
    is_private,
    is_public_ip,
    origin,
    proxy_of,
    read_seconds,
)

LOOPBACK = "http://127.0.0.1:8000/v1 http://[::1]:8000/v1 http://localhost:8000/v1"
LOOPBACK += " https://127.8.9.1/ https://[::ffff:127.0.0.1]/ https://localhost./"
LOOPBACK += " http://127.0.0.1./ https://docs.localhost/"
PRIVATE = "http://192.168.1.20/v1 http://vllm:8000/v1 http://10.0.0.8/ https://docs/"
PRIVATE += " http://169.254.169.254/ http://100.64.1.1/ http://docs.local./"
PUBLIC = "https://api.openai.com/v1 http://8.8.8.8/v1 http://docs.example./ nowhere"


@pytest.mark.parametrize("url", f"{LOOPBACK} {PRIVATE} {PUBLIC}".split())
def test_this_machine_private_and_public_addresses_are_distinguished(url):
    assert is_loopback(url) == (url in LOOPBACK.split())
    assert is_private(url) == (url not in PUBLIC.split())


WITH_SECRET = """
https://me:hunter2@numpy.org/doc/ https://hunter2@numpy.org/ https://[hunter2@
https://numpy.org/?token=hunter2 https://numpy.org/#hunter2 me:hunter2@numpy.org
"""


@pytest.mark.parametrize("address", WITH_SECRET.split())
def test_an_address_with_a_secret_is_refused_without_showing_it(address):
    assert checked_address("https://numpy.org/doc") == "https://numpy.org/doc/"
    with pytest.raises(ValueError, match="password") as caught:
        checked_address(address)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("text", ["not an address", "", "127.1", "2130706433", "8.8.8"])
def test_what_is_no_address_is_not_public(text):
    assert not is_public_ip(text)


@pytest.fixture
def proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch.setenv


def test_the_proxy_of_a_scheme_comes_first_and_some_hosts_have_none(proxies):
    assert proxy_of("https://docs.example/") is None
    proxies("ALL_PROXY", "inside.example:3128")
    proxies("HTTP_PROXY", "http://me:pass@plain.example")
    proxies("no_proxy", "example.org, docs.example:8000")
    assert proxy_of("https://docs.example/") == "http://inside.example:3128"
    assert proxy_of("http://docs.example/") == "http://me:pass@plain.example"
    excepted = "localhost:1 127.0.0.1 [::1] a.example.org docs.example:8000"
    for host in excepted.split():
        assert proxy_of(f"http://{host}/") is None


@pytest.mark.parametrize(
    "proxy", ["socks5://me:hunter2@x:1", "ftp://x", "http://", "x:y"]
)
def test_a_proxy_that_can_not_be_used_is_bad_input_and_not_shown(proxies, proxy):
    proxies("ALL_PROXY", proxy)
    with pytest.raises(InputError, match=r"https://docs\.example") as told:
        proxy_of("https://docs.example/")
    assert "hunter2" not in str(told.value)


def test_a_site_is_the_same_however_its_address_is_written():
    assert origin("https://Docs.Example/a") == origin("https://docs.example:443/b")
    assert origin("http://docs.example") != origin("https://docs.example")
    assert origin("http://docs.example:8000") != origin("http://docs.example")


NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("7", 7), (" 0.5 ", 0.5), ("1m40s", 100), ("-3", 0)),
        *((formatdate(NOW + 100, usegmt=True), 100), (formatdate(NOW - 100), 0)),
        *((str(NOW + 30), 30), (str(1000 * (NOW + 30)), 30)),
        *(("", None), ("soon", None), ("inf", None)),
    ],
)
def test_a_wait_is_seconds_a_duration_or_a_moment(text, seconds):
    expected = None if seconds is None else pytest.approx(seconds)
    assert read_seconds(text, NOW) == expected
