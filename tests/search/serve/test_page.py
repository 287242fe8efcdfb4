"""The page shows text of strangers as text."""

import re
from importlib.resources import files

PAGE = files("toolbank.search.serve") / "page"


def test_the_page_and_its_files_are_served(server):
    page = server.ask("/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for name in re.findall(r'(?:src|href)="([^"]+)"', page.body.decode()):
        if not name.startswith("data:"):
            assert server.ask(f"/{name}").status == 200
            assert server.ask(f"/post/{name}").status == 200
    assert server.ask("/post").status == 307


def test_nothing_on_the_page_becomes_markup_or_code():
    script = (PAGE / "page.js").read_text()
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(|srcdoc"
    assert not re.search(ways, script)
    page = (PAGE / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|javascript:|<style", page)
    assert not re.search(r"https?://", page)
