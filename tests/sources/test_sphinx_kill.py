import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources.faults import answer
from tests.sources.references import serve
from tests.sources.sphinx_server import SiteServer, write_small_site
from toolbank.bank.files import read_tools
from toolbank.commands.crawl import crawl_to_folder
from toolbank.system.folders import MARK

TOOLBANK = str(Path(sys.executable).with_name("toolbank"))
CACHE_FILE = "[0-9a-f]" * 64


def crawl_and_kill(server, site, out, page):
    """Crawl from the command line, and kill it when it asks for a page."""

    def kill(_):
        os.kill(child.pid, signal.SIGKILL)

    server.answers[page] = kill
    command = [TOOLBANK, "crawl", site, "--base-url", server.url, "--out", str(out)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as child:
        assert child.wait(120) == -signal.SIGKILL
    del server.answers[page]


def written(out):
    files = (path for path in out.iterdir() if path.name != MARK)
    return {path.name: path.read_bytes() for path in files if path.is_file()}


def check_kills(server, site, tmp_path, at):
    """Kill at the pages that an undisturbed crawl asks for at these places, and go on."""
    whole = tmp_path / "whole"
    crawl_to_folder(whole, site=site, base_url=server.url)
    assert {"tools.parquet", "crawl.json"} <= written(whole).keys()
    in_order = server.asked.copy()
    for place in at:
        out = tmp_path / f"killed-{place}"
        crawl_and_kill(server, site, out, in_order[place])
        assert not written(out), "the results come last"
        kept = len(list(out.rglob(CACHE_FILE)))
        server.asked.clear()
        crawl_to_folder(out, site=site, base_url=server.url)
        assert written(out) == written(whole)
        # The server may note the last requests of the killed one only now: none of them was kept.
        asked = set(server.asked)
        assert len(asked) == len(in_order) - kept, "what was kept was not asked for"
        server.asked.clear()
        crawl_to_folder(out, site=site, base_url=server.url)
        assert server.asked == []
        assert written(out) == written(whole)


@pytest.mark.slow
def test_a_crawl_that_was_killed_goes_on_to_the_same_bytes(tmp_path, monkeypatch):
    write_small_site(tmp_path, pages=30)
    (tmp_path / "site" / "small.f7.html").unlink()
    monkeypatch.chdir(tmp_path)
    with SiteServer(tmp_path / "site") as server:
        check_kills(server, "small", tmp_path, at=[1, 14, -1])


@pytest.mark.parametrize(
    ("wait", "number"),
    [("for the site", signal.SIGINT), ("for an answer", signal.SIGTERM)],
)
def test_an_interrupted_crawl_is_continued(wait, number, tmp_path, monkeypatch):
    write_small_site(tmp_path)
    monkeypatch.chdir(tmp_path)
    with SiteServer(tmp_path / "site") as server:
        pause = answer(b"", "503 Wait", retry_after="60")

        def interrupt(handler):
            if wait == "for the site":
                pause(handler)
                handler.connection.close()
            child.send_signal(number)
            server.released.wait(60)

        server.answers["/small.f1.html"] = interrupt
        command = [TOOLBANK, "crawl", "small", "--base-url", server.url]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
            told = child.communicate(timeout=60)[1]
        server.answers.clear()
        server.released.set()
        server.asked.clear()
        crawl_to_folder(Path("crawls/small"), site="small", base_url=server.url)
        assert "/objects.inv" not in server.asked, "it goes on"
        assert "/small.f1.html" in server.asked
        assert len(read_tools(Path("crawls/small/tools.parquet"))) == 4
    assert told.startswith("toolbank: stopped.") and "crawls/small/cache" in told
    assert "Traceback" not in told
    assert child.returncode != 0


@pytest.mark.slow
@pytest.mark.parametrize("site", ["numpy", "pandas", "boto3"])
def test_a_killed_crawl_of_real_pages_goes_on_to_the_same_bytes(site, tmp_path):
    with serve(site, tmp_path) as server:
        check_kills(server, site, tmp_path, at=[5, 250, -5])
