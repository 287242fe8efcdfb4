import pytest

from toolbank.system.errors import InputError
from toolbank.system.net import (
    checked_address,
    is_loopback,
    is_private,
    is_public_ip,
    origin,
    proxy_of,
)


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://192.168.1.20/v1", True),
        ("http://localhost:8000/v1", True),
        ("http://vllm:8000/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://8.8.8.8/v1", False),
        ("http://10.0.0.8/doc/", True),
        ("http://localhost/doc/", True),
        ("http://169.254.169.254/", True),
        ("http://100.64.1.1/", True),
        ("http://localhost./doc/", True),
        ("http://docs.local./", True),
        ("http://127.0.0.1./", True),
        ("http://docs.example./", False),
        ("nowhere", False),
    ],
)
def test_private_addresses_are_told_from_public_ones(url, private):
    assert is_private(url) is private


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("http://127.0.0.1:8000/", True),
        ("https://127.8.9.1/", True),
        ("https://[::1]/", True),
        ("https://[::ffff:127.0.0.1]/", True),
        ("https://localhost./", True),
        ("https://docs.localhost/", True),
        ("https://10.0.0.8/", False),
        ("https://docs/", False),
        ("https://docs.local/", False),
        ("https://numpy.org/", False),
        ("nowhere", False),
    ],
)
def test_this_machine_is_told_from_others(url, own):
    assert is_loopback(url) is own


def test_the_address_of_a_folder_ends_in_a_slash():
    assert checked_address("https://numpy.org/doc") == "https://numpy.org/doc/"


@pytest.mark.parametrize(
    "address",
    [
        "https://me:hunter2@numpy.org/doc/",
        "https://hunter2@numpy.org/",
        "https://numpy.org/?token=hunter2",
        "https://numpy.org/#hunter2",
        "me:hunter2@numpy.org",
        "https://[hunter2@",
    ],
)
def test_an_address_with_a_secret_is_refused_without_showing_it(address):
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


def test_the_proxy_of_a_scheme_goes_before_that_of_all(proxies):
    assert proxy_of("https://docs.example/") is None
    proxies("ALL_PROXY", "inside.example:3128")
    proxies("HTTP_PROXY", "http://me:pass@plain.example")
    assert proxy_of("https://docs.example/") == "http://inside.example:3128"
    assert proxy_of("http://docs.example/") == "http://me:pass@plain.example"


def test_no_proxy_is_used_for_this_machine_and_for_what_the_environment_excepts(
    proxies,
):
    proxies("all_proxy", "http://inside.example")
    proxies("no_proxy", "example.org, docs.example:8000")
    for host in (
        "localhost:1",
        "127.0.0.1",
        "[::1]",
        "a.example.org",
        "docs.example:8000",
    ):
        assert proxy_of(f"http://{host}/") is None
    assert proxy_of("http://docs.example/")


@pytest.mark.parametrize(
    "proxy", ["socks5://me:hunter2@x:1", "ftp://x", "http://", "x:y"]
)
def test_a_proxy_that_can_not_be_used_is_bad_input_and_not_shown(proxies, proxy):
    proxies("ALL_PROXY", proxy)
    with pytest.raises(
        InputError, match=r"for https://docs\.example can't be used"
    ) as told:
        proxy_of("https://docs.example/")
    assert "hunter2" not in str(told.value)


def test_a_site_is_the_same_however_its_address_is_written():
    assert origin("https://Docs.Example/a") == origin("https://docs.example:443/b")
    assert origin("http://docs.example") != origin("https://docs.example")
    assert origin("http://docs.example:8000") != origin("http://docs.example")
