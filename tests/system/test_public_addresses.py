"""One definition of a public address: every client refuses the same, and reaches the same."""

import asyncio
import ipaddress
import json
import socket
from http.server import BaseHTTPRequestHandler
from random import Random

import pytest

from tests.corpus_files import CORPUS
from tests.search.calls.apis import call_server, running
from toolbank.search.calls import CallError, Target
from toolbank.search.calls.http import HttpRequest, send
from toolbank.sources import SOURCES
from toolbank.sources.documents import Documents
from toolbank.sources.mcp.settings import McpSource
from toolbank.sources.web.answer import RequestError
from toolbank.sources.web.download import Downloader
from toolbank.sources.web.policy import CrawlPolicy, CrawlSettings
from toolbank.system.errors import ToolbankError

ADDRESSES = CORPUS / "addresses"
REFUSED = json.loads((ADDRESSES / "refused.json").read_text())
REACHED = (ADDRESSES / "reached.txt").read_text().split()


def draw(network, random):
    """The first and the last address of a network, and some between."""
    network = ipaddress.ip_network(network)
    size = network.num_addresses
    places = [0, size - 1, *(random.randrange(size) for _ in range(4))]
    return [str(network[place]) for place in places]


def all_refused():
    random = Random(0)
    networks = [one for some in REFUSED.values() for one in some]
    drawn = {one for network in networks for one in draw(network, random)}
    return random.sample(sorted(drawn), 200)


class Network:
    """What each lookup of a name gives, the last for ever; what was connected to, and reached."""

    def __init__(self):
        self.names, self.connected, self.reached = {}, set(), set()

    def look_up(self, host, port, *_, **__):
        lookups = self.names[host]
        addresses = lookups.pop(0) if len(lookups) > 1 else lookups[0]
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))
            if ":" in address
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in addresses
        ]


@pytest.fixture
def network(monkeypatch):
    """A network in which every address is that of a server on this machine."""
    network = Network()
    loop = asyncio.selector_events.BaseSelectorEventLoop
    connect = loop.sock_connect

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            network.reached.add(self.headers["Host"].partition(":")[0])
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    async def connect_here(self, sock, address):
        network.connected.add(ipaddress.ip_address(address[0]))
        here = "127.0.0.1" if sock.family == socket.AF_INET else "::ffff:127.0.0.1"
        await connect(self, sock, (here, int(server.rpartition(":")[2])))

    monkeypatch.setattr(socket, "getaddrinfo", network.look_up)
    monkeypatch.setattr(loop, "sock_connect", connect_here)
    with running(Handler) as server:
        yield network


def crawl(url, _):
    async def ask():
        downloader = Downloader(CrawlSettings(url, CrawlPolicy()))
        try:
            await downloader.send(url, {})
        finally:
            await downloader.aclose()

    asyncio.run(ask())


def read_document(url, _):
    Documents().open(url)


def read_mcp(url, folder):
    SOURCES.find("mcp", "").read(McpSource(url=url), folder)


def call_http(url, _):
    asyncio.run(send(HttpRequest("GET", url), Target(url=url)))


def call_mcp(url, _):
    call_server("any", {}, Target(mcp=url))


CLIENTS = {
    "crawler": (crawl, "at a private address"),
    "documents": (read_document, "at a private address"),
    "MCP": (read_mcp, "at a private address"),
    "calls over HTTP": (call_http, "not public"),
    "calls to MCP": (call_mcp, "not public"),
}


def is_refused(client, url, folder):
    ask, refusal = CLIENTS[client]
    try:
        ask(url, folder)
    except (RequestError, ToolbankError, CallError) as error:
        return refusal in str(error)
    return False


@pytest.mark.parametrize("client", CLIENTS)
def test_all_clients_refuse_and_reach_the_same_addresses(network, tmp_path, client):
    refused = all_refused()
    assert len(refused) == 200
    for number, address in enumerate(refused):
        network.names[f"private{number}.example"] = [[address]]
        url = f"http://private{number}.example/"
        assert is_refused(client, url, tmp_path), address
    assert not network.connected
    for number, address in enumerate(REACHED):
        network.names[f"public{number}.example"] = [[address]]
        url = f"http://public{number}.example/"
        assert not is_refused(client, url, tmp_path), address
    assert network.connected == set(map(ipaddress.ip_address, REACHED))
    assert len(network.reached) == len(REACHED)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_name_leads_only_to_addresses_that_were_checked(network, tmp_path, client):
    network.names["mixed.example"] = [["10.0.0.1", "8.8.8.8", "::1"]]
    network.names["turning.example"] = [["8.8.8.8"], ["127.0.0.1"]] * 20
    for name in network.names:
        for _ in range(3):
            is_refused(client, f"http://{name}/", tmp_path)
    assert network.connected == {ipaddress.ip_address("8.8.8.8")}
    assert network.reached == set(network.names)
