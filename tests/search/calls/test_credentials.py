"""A credential goes to its own server alone, and isn't told to the model."""

import asyncio
import json

import pytest

from tests.search.calls.apis import call_server, serving
from toolbank.bank.records import Argument, HttpCall
from toolbank.search.calls import CallError, Target
from toolbank.search.calls.http import prepare_request, send

SECRET = 'sk-"verysecret"&more'
CREDENTIAL = {"variable": "PETS_KEY", "header": "X-Key"}


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("PETS_KEY", SECRET)


@pytest.fixture(params=["api", "mcp"])
def ask(request):
    """Call a server at an address, as an API or over MCP."""
    return CALLS[request.param]


def call_api(address, operation=HttpCall(method="GET", path="/"), **arguments):  # noqa: B008
    target = Target(url=address, credential=CREDENTIAL, private=True)
    return asyncio.run(send(prepare_request(address, operation, arguments), target))


def call_mcp(address):
    target = Target(mcp=address, credential=CREDENTIAL, private=True)
    return call_server("read", {}, target)


CALLS = {"api": call_api, "mcp": call_mcp}


def echo(status):
    kind = {"Content-Type": "application/json"}
    return lambda _, __, headers, ___: (status, kind, json.dumps(headers).encode())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_it_does_not_go_where_a_redirect_leads(ask, status):
    with serving(echo(200)) as (other, came_to_other):
        where = {"Location": f"{other}/"}
        with (
            serving(lambda *_: (status, where, b"")) as (address, came),
            pytest.raises(CallError) as told,
        ):
            ask(address)
    assert any(SECRET in headers.get("X-Key", "") for _, _, headers, _ in came)
    assert not came_to_other
    assert "verysecret" not in str(told.value)


@pytest.mark.parametrize("status", [401, 500])
def test_it_is_in_no_error(ask, status):
    with serving(echo(status)) as (address, _), pytest.raises(CallError) as told:
        ask(address)
    assert "verysecret" not in str(told.value)


def test_an_api_that_echoes_it_does_not_tell_the_model_and_takes_no_argument_for_it():
    argument = Argument(property="key", place="header", name="x-key")
    operation = HttpCall(method="GET", path="/", arguments=(argument,))
    with serving(echo(200)) as (address, came):
        assert json.loads(call_api(address))["X-Key"] == "Bearer ***"
        with pytest.raises(CallError, match="X-Key: an argument may not"):
            call_api(address, operation, key="mine")
    assert len(came) == 1
