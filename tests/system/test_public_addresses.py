"""One definition of a public address: every client refuses the same, and reaches the same."""

import asyncio
import ipaddress
import socket
from http.server import BaseHTTPRequestHandler
from random import Random

import pytest

from tests.search.calls.apis import running
from toolbank.search.calls import CallError, Target
from toolbank.search.calls.http import HttpRequest, send
from toolbank.search.calls.mcp import send_to_mcp
from toolbank.sources import SOURCES
from toolbank.sources.documents import Documents
from toolbank.sources.mcp.settings import McpSource
from toolbank.sources.web.answer import RequestError
from toolbank.sources.web.download import Downloader
from toolbank.sources.web.policy import CrawlPolicy, CrawlSettings
from toolbank.system.errors import ToolbankError

REFUSED = {
    "this network": "0.0.0.0/8",
    "private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16",
    "shared by a provider's customers (RFC 6598)": "100.64.0.0/10",
    "this machine": "127.0.0.0/8 ::1/128 ::/128",
    "link-local, cloud metadata among it": "169.254.0.0/16 169.254.169.254/32 fe80::/10",
    "protocols' own (RFC 6890)": "192.0.0.0/24 2001::/23",
    "documentation": "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20",
    "relays of 6to4, and 6to4 (RFC 7526)": "192.88.99.0/24 2002::/16 2002:808:808::/48",
    "benchmarking": "198.18.0.0/15 2001:2::/48",
    "multicast": "224.0.0.0/4 ff00::/8",
    "reserved": "240.0.0.0/4 255.255.255.255/32 4000::/3 8000::/1",
    "Teredo, ORCHID": "2001::/32 2001:10::/28 2001:20::/28",
    "compatible to IPv4 (RFC 4291)": "::/96 ::808:808/128 ::7f00:1/128",
    "translated for a local network (RFC 8215)": "64:ff9b:1::/48 64:ff9b:1::808:808/128",
    "discard-only": "100::/64",
    "unique local, site-local": "fc00::/7 fec0::/10",
    "mapped to IPv4 that is none": "::ffff:7f00:0/104 ::ffff:a00:0/104 ::ffff:a9fe:0/112",
    "translated to IPv4 that is none": "64:ff9b::7f00:0/104 64:ff9b::a9fe:0/112",
}
REACHED = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.1 100.63.255.255 100.128.0.1 126.255.255.255
128.0.0.1 172.15.0.1 172.32.0.1 192.0.1.1 192.88.98.1 192.167.1.1 198.17.0.1
198.20.0.1 223.255.255.255 2000::1 2001:200::1 2001:4860:4860::8888 2003::1
2606:4700::1111 2a00:1450::1 3ffe:ffff::1 3fff:1000::1 ::ffff:8.8.8.8
64:ff9b::808:808
"""


def draw(network, random):
    """The first and the last address of a network, and some between."""
    network = ipaddress.ip_network(network)
    size = network.num_addresses
    places = [0, size - 1, *(random.randrange(size) for _ in range(4))]
    return [str(network[place]) for place in places]


def all_refused():
    random = Random(0)
    networks = [one for some in REFUSED.values() for one in some.split()]
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
    asyncio.run(send_to_mcp("any", {}, Target(mcp=url)))


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
def test_all_clients_refuse_the_same_addresses_and_reach_the_same(
    network, tmp_path, client
):
    refused = all_refused()
    assert len(refused) == 200
    for number, address in enumerate(refused):
        network.names[f"private{number}.example"] = [[address]]
        url = f"http://private{number}.example/"
        assert is_refused(client, url, tmp_path), address
    assert not network.connected
    for number, address in enumerate(REACHED.split()):
        network.names[f"public{number}.example"] = [[address]]
        url = f"http://public{number}.example/"
        assert not is_refused(client, url, tmp_path), address
    assert network.connected == set(map(ipaddress.ip_address, REACHED.split()))
    assert len(network.reached) == len(REACHED.split())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_name_leads_to_none_but_the_addresses_that_were_checked(
    network, tmp_path, client
):
    network.names["mixed.example"] = [["10.0.0.1", "8.8.8.8", "::1"]]
    network.names["turning.example"] = [["8.8.8.8"], ["127.0.0.1"]] * 20
    for name in network.names:
        for _ in range(3):
            is_refused(client, f"http://{name}/", tmp_path)
    assert network.connected == {ipaddress.ip_address("8.8.8.8")}
    assert network.reached == set(network.names)
