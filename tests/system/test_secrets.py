"""A secret is told by the name of its key or by its entropy, never because it is an argument."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus_files import CORPUS
from toolbank.system.secrets import (
    find_secrets,
    mask_command,
    mask_secrets,
    named_secret,
)


def read(file):
    """A name and a value of each line NAME=VALUE."""
    lines = (CORPUS / "secrets" / file).read_text().splitlines()
    return [tuple(line.split("=", 1)) for line in lines]


PLAIN = read("plain.txt")

SECRET = [
    *read("secret.txt"),
    ("PRIVATE_KEY", "-----BEGIN RSA PRIVATE KEY-----\nabc"),
    ("SSH_KEY", "-----BEGIN OPENSSH PRIVATE KEY-----\nx"),
]


@pytest.mark.parametrize(("name", "value"), PLAIN)
def test_what_people_write_is_no_secret(name, value):
    assert find_secrets(value, name) == []


@pytest.mark.parametrize(("name", "value"), SECRET)
def test_a_secret_is_recognised(name, value):
    found = find_secrets(value, name)
    assert found
    masked = mask_secrets(value, name)
    assert not any(secret in masked for secret in found)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (
            "postgresql://me:hunter2@db.example.com/x",
            "postgresql://me:***@db.example.com/x",
        ),
        ("--header=Authorization: Bearer open", "--header=Authorization: Bearer ***"),
        ('{"apiKey": "open", "city": "Oslo"}', '{"apiKey": "***", "city": "Oslo"}'),
        (
            "https://x.example/?city=Oslo&token=open",
            "https://x.example/?city=Oslo&token=***",
        ),
        ("--env=DB_PASSWORD=open", "--env=DB_PASSWORD=***"),
        ("Server=h;Password=open;Timeout=3", "Server=h;Password=***;Timeout=3"),
    ],
)
def test_only_the_secret_part_of_a_value_is_hidden(value, shown):
    assert mask_secrets(value) == shown


def test_an_option_says_what_its_value_is():
    command = ["npx", "-y", "shop", "--zone", "Asia/Tokyo", "--api-key", "open", "x"]
    shown = ["npx", "-y", "shop", "--zone", "Asia/Tokyo", "--api-key", "***", "x"]
    assert mask_command(command) == shown


NAMES = "PGPASSWORD apiKey X-Api-Key --auth-token GH_PAT SESSION_COOKIE TOKEN_2 DBPASS"
OTHERS = "AUTHOR MONKEY TOKENIZERS_PARALLELISM SSH_ASKPASS TOKEN_FILE XDG_SESSION_TYPE"
OTHERS += " COMPASS GIT_CONFIG_KEY_0 PATH"


@pytest.mark.parametrize("name", ["", *NAMES.split(), *OTHERS.split()])
def test_names_of_secrets(name):
    assert named_secret(name) == (name in NAMES.split())


def random_text(alphabet, length):
    return st.builds(
        lambda rng: "".join(rng.choices(alphabet, k=length)),
        st.randoms(use_true_random=False),
    )


TOKENS = st.one_of(
    random_text(string.hexdigits[:16], 32),
    random_text(string.hexdigits[:16], 64),
    random_text(string.ascii_letters + string.digits, 32),
    st.uuids().map(str),
)


@given(TOKENS)
def test_a_random_token_is_hidden_whatever_it_is_called(token):
    # Of 32 characters drawn at random; those that hypothesis makes of one character alone are none.
    if len(set(token)) > 8:
        assert token not in mask_secrets(token, "ANY")
        assert token not in mask_secrets(f"--x={token}")
        assert token not in mask_secrets(f"https://x.example/{token}/mcp")


@given(st.text(), st.sampled_from(["", "TOKEN", "ANY", "--header"]))
def test_what_is_not_hidden_stays_as_it_is(value, name):
    found = find_secrets(value, name)
    marked = mask_secrets(value, name, lambda secret: secret)
    assert marked == value
    assert all(secret in value for secret in found)


PIECES = "a= ://a: -eyJ -sk- a. 'a':' git@ /a1"


@pytest.mark.parametrize("piece", [*PIECES.split(), "-----BEGIN ", "bearer ", "--a "])
def test_a_long_value_is_looked_through_all_the_same(piece):
    value = piece * (100_000 // len(piece))
    assert mask_secrets(value, "", lambda secret: secret) == value
