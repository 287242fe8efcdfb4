import pytest

from toolbank.system.net import (
    checked_address,
    is_loopback,
    is_private,
    is_public_ip,
    origin,
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


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254"),
        *("100.64.0.1", "0.0.0.0", "224.0.0.1", "239.255.255.250", "255.255.255.255"),
        *("::", "::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1"),
        *("::ffff:169.254.169.254", "64:ff9b::a00:1", "2002:7f00:1::", "fec0::1"),
        *("::127.0.0.1", "::10.0.0.1", "::808:808", "64:ff9b:1::7f00:1"),
        *("64:ff9b:1::808:808", "not an address"),
    ],
)
def test_addresses_that_no_public_site_has(address):
    assert not is_public_ip(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_addresses_that_a_public_site_may_have(address):
    assert is_public_ip(address)


def test_a_site_is_the_same_however_its_address_is_written():
    assert origin("https://Docs.Example/a") == origin("https://docs.example:443/b")
    assert origin("http://docs.example") != origin("https://docs.example")
    assert origin("http://docs.example:8000") != origin("http://docs.example")
