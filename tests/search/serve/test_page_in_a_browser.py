"""The page as a person has it: in Debian's chromium."""

import re
import shutil
from contextlib import contextmanager

import pytest

from tests.search.packed.packs import FITTING, REQUESTS, TOOLS, UNFITTING
from tests.search.serve.servers import KEY, serving
from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.retrievers import create_retriever
from toolbank.retrievers.settings import Bm25Config
from toolbank.search.catalogue import RequestIndex
from toolbank.search.finder import Finder

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not shutil.which("chromium"), reason="there is no chromium here"
    ),
]
expect = playwright.expect

HOSTILE = (
    Tool(
        name='song"><img src=x onerror=alert(1)>',
        summary="</script><script>alert(2)</script> song",
        description='<a href="javascript:alert(3)">song</a>',
        url="javascript:alert(4)",
        tags=("<svg onload=alert(5)>",),
    ),
    Tool(name="song\u202egnos", summary="A song the other way round."),
    Tool(name="song." + "x" * 5_000, summary="Song " * 200),
)


def pack(folder, tools):
    retrievers = {}
    for name in ("words", "others"):
        retrievers[name] = create_retriever(Bm25Config(name=name))
        retrievers[name].fit(Bank(tuple(tools)))
    Finder(retrievers, tools, RequestIndex.of(REQUESTS)).pack(folder)
    return folder


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    tools = (*TOOLS, *HOSTILE)
    with serving(pack(tmp_path_factory.mktemp("pages"), tools)) as server:
        yield f"http://{server.host}:{server.port}/"


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@contextmanager
def opened(chromium, address, *, refused=False, **options):
    """A page of its own, on which nothing may go wrong, and that asks no other host.

    With `refused`, its first request is refused, which a browser's console tells.
    """
    wrong = []
    context = chromium.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
    page.on(
        "request",
        lambda request: (
            request.url.startswith((address.split("?")[0], "data:"))
            or wrong.append(request.url)
        ),
    )
    page.goto(address)
    yield page
    context.close()
    assert refused or wrong == []


def test_what_is_typed_is_found_and_lies_in_the_address(chromium, address):
    with opened(chromium, address) as page:
        page.keyboard.type("lock the door of my house")
        first = page.locator(".hit").first
        expect(first.locator(".name")).to_have_text("door.lock")
        expect(first.locator("meter")).to_be_visible()
        expect(page).to_have_url(re.compile(r"\?q=lock\+the\+door"))
        page.reload()
        expect(page.locator("#q")).to_have_value("lock the door of my house")
        expect(first.locator(".name")).to_have_text("door.lock")
        page.locator("#q").fill("zebra")
        expect(page.locator("#said")).to_contain_text("No tool is found")
        page.locator("#q").fill("will it rain in Bergen")
        expect(page.locator("#near")).to_contain_text("will it rain in Oslo")
        expect(page.locator("#near")).to_contain_text("get_weather")
        # What is typed before the server has answered stays.
        held = []
        page.route("**/facets", lambda route: held.append(route))
        page.goto(address)
        page.keyboard.type("play a song")
        page.wait_for_timeout(100)
        held[0].continue_()
        expect(first.locator(".name")).to_have_text("music.play")
        expect(page.locator("#q")).to_have_value("play a song")


def test_without_a_mouse(chromium, address):
    permissions = ["clipboard-write", "clipboard-read"]
    with opened(chromium, f"{address}?q=song", permissions=permissions) as page:
        first = page.locator(".hit").first
        expect(first).to_be_visible()
        for key in ("ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
            page.keyboard.press(key)
        expect(first.locator("button").first).to_have_attribute("aria-expanded", "true")
        expect(first.locator("pre").last).to_contain_text('"type": "function"')
        page.keyboard.press("c")
        expect(first.locator(".copy")).to_have_text("Copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert '"type": "function"' in copied
        page.keyboard.press("/")
        expect(page.locator("#q")).to_be_focused()


def test_filters_and_two_retrievers_side_by_side(chromium, address):
    with opened(chromium, f"{address}?q=the+song+of+the+door") as page:
        page.locator("#options summary").click()
        page.get_by_label("Source").select_option("home")
        expect(page).to_have_url(re.compile("source=home"))
        names = page.locator(".hit .name")
        expect(names.first).to_be_visible()
        home = {tool.name for tool in TOOLS if tool.source == "home"}
        expect(page.locator(".hit")).to_have_count(4)
        assert set(names.all_text_contents()) <= home
        page.get_by_label("Beside it").select_option("others")
        expect(page.locator("#found h2")).to_have_text(["words", "others"])
        expect(page.locator(".hits")).to_have_count(2)
        page.go_back()
        page.go_forward()
        expect(page.locator(".hits")).to_have_count(2)


def test_the_mark_stands_above_the_hits_and_does_not_contradict_them(chromium, marking):
    address = f"http://{marking.host}:{marking.port}/"
    for asked, mark in ((FITTING, ""), (UNFITTING, "Probably none of these tools")):
        for query in asked:
            with opened(chromium, f"{address}?q={query}") as page:
                expect(page.locator(".hit").first).to_be_visible()
                expect(page.locator("#said")).to_contain_text(mark)
                share = page.locator(".hit .share").first.text_content()
                assert (int(share.split()[0]) < 50) is bool(mark)


def test_texts_of_strangers_are_shown_as_text(chromium, address):
    with opened(chromium, f"{address}?q=song&k=10") as page:
        names = page.locator(".hit .name")
        expect(names.first).to_be_visible()
        assert {tool.name for tool in HOSTILE} <= set(names.all_text_contents())
        for hit in page.locator(".hit").all():
            hit.locator("> button").click()
            expect(hit.locator("pre").last).to_be_visible()
        assert page.locator("img, svg, main script, main a").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_fits_a_phone_and_the_dark(chromium, address, width):
    at = f"{address}?q=song&k=10&beside=others"
    options = {"viewport": {"width": width, "height": 800}}
    for scheme in ("light", "dark"):
        with opened(chromium, at, **options, color_scheme=scheme) as page:
            expect(page.locator(".hit").first).to_be_visible()
            page.locator(".hit > button").first.click()
            expect(page.locator(".hit pre").first).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            light = sum(map(int, re.findall(r"\d+", ground)[:3])) / 3
            assert (light < 100) == (scheme == "dark")


def test_a_server_with_a_key_asks_again_only_at_a_search(chromium, tmp_path):
    with (
        serving(pack(tmp_path, TOOLS), "--host", "0.0.0.0", key=KEY) as server,
        opened(
            chromium, f"http://127.0.0.1:{server.port}/?q=song", refused=True
        ) as page,
    ):
        secret = page.get_by_label("This server wants an API key.")
        secret.fill("schl\u00fcssel \u4e2d")
        page.keyboard.press("Enter")
        expect(secret).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_text("Nothing is shown without the key")).to_be_visible()
        expect(secret).to_be_hidden()
        page.locator("#q").press("Enter")
        secret.fill(KEY)
        page.keyboard.press("Enter")
        expect(page.locator(".hit").first).to_be_visible()
        assert page.evaluate("sessionStorage.getItem('toolbank-key')") == KEY
        assert page.evaluate("Object.keys(localStorage).length") == 0
        assert KEY not in page.url
        page.reload()
        expect(page.locator(".hit").first).to_be_visible()
