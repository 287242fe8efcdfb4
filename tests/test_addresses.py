import pytest

from toolbank.addresses import checked_address, is_private


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
        ("nowhere", False),
    ],
)
def test_private_addresses_are_told_from_public_ones(url, private):
    assert is_private(url) is private


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
