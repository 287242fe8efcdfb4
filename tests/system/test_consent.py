"""What may be sent and started is decided by the user, and by no recipe."""

import asyncio
import io
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from yarl import URL

from tests.commands.in_process import toolbank
from tests.servers.chat import Answer, ChatServer
from tests.servers.named import GRANTS, grant_of, name_host, read_line
from tests.terminal_session import answer_on_terminal
from tests.world import good, write_recipe
from toolbank.run.plan import describe_plan
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe
from toolbank.system import aio
from toolbank.system.consent import (
    Grant,
    GrantValue,
    command_of,
    find_missing,
    grant_to_send,
    is_granted,
)
from toolbank.system.errors import InputError

KEY, OTHER = "sk-test-5f1c9a2b77", "aws-test-0c4d1e88aa"


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("TOOLBANK_GRANTS", "")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", OTHER)


@pytest.fixture
def server(monkeypatch):
    """A server that nobody has named."""
    with ChatServer(good) as started:
        monkeypatch.setenv("TOOLBANK_GRANTS", "")
        yield started


def run(server, path, *typed):
    """Generate by a recipe; the authorizations that the server gets."""
    server.calls.clear()
    recipe = load_recipe(path, list(typed))
    out = Path(path).with_name(f"out{len(list(Path(path).parent.iterdir()))}")
    run_recipe(recipe, out, until="generate")
    return {call.headers.get("authorization") for call in server.calls}


def may_go(url, variable="OPENAI_API_KEY"):
    try:
        return is_granted(grant_to_send(variable, url, "base_url"))
    except InputError:
        return False


OWN = "https://api.openai.com/v1 https://API.OpenAI.com/v1 HTTPS://api.openai.com"
OWN += " https://api.openai.com./v1 https://api.openai.com:443/v1"


FOREIGN = """
http://api.openai.com/v1 https://api.openai.com:8443/v1
https://api.openai.com.evil.org/v1 https://evil.org/api.openai.com
https://api.openai.com@evil.org/v1 https://api.openai.com:443@evil.org/v1
https://evil.org\\@api.openai.com/v1 https://api.openai.com\\.evil.org/v1
https://api.openai.com%2eevil.org/v1 https://api.openai.com%00.evil.org/
https://api-openai.com/v1 https://xapi.openai.com/v1 https://openai.com/v1
https://\u0430pi.openai.com/v1 https://xn--pi-7kc.openai.com/v1
https://api.openai.com..evil.org https://[::1]/v1 https:///api.openai.com
https://evil.org?api.openai.com x
"""


@pytest.mark.parametrize("url", ["", *OWN.split(), *FOREIGN.split()])
def test_the_default_key_goes_to_its_own_provider_and_nowhere_else_unasked(url):
    assert may_go(url) == (url in OWN.split())
    assert not may_go(url, "AWS_SECRET_ACCESS_KEY")


@given(
    st.text(
        st.sampled_from("api.openai.com@:/\\#?%[]A\u3002\uff0e\u00df\u0430 \t0e-_"),
        max_size=30,
    )
)
@example("[]@")
def test_who_connects_reads_the_host_that_the_key_was_let_go_to(tail):
    url = f"https://api.openai.com{tail}"
    if may_go(url):
        try:
            read = URL(url)
        except Exception:
            # It asks nobody.
            return
        assert (read.host or "").rstrip(".").lower() == "api.openai.com"
        assert read.port in (None, 443)


@given(st.from_regex(r"[a-z0-9]{1,8}(\.[a-z0-9]{1,8}){0,3}", fullmatch=True), st.data())
def test_one_host_has_one_place(host, data):
    assume(not host.rpartition(".")[2].isdigit())
    upper = "".join(data.draw(st.sampled_from([c, c.upper()])) for c in host)
    place = host_of(f"https://{host}/v1")
    assert place == f"https://{host}"
    assert host_of(f"https://{upper}.:443/") == place
    assert host_of(f"http://{host}/") != place
    assert host_of(f"https://{host}:444/") != place


def host_of(url):
    return grant_to_send("A", url, "").route[1]


KEYED = "OPENAI_API_KEY"
WRITTEN = [
    ("api.groq.com", "https://api.groq.com/openai/v1", KEYED),
    ("https://API.groq.com.", "https://api.groq.com", "GROQ_KEY"),
    ("http://gpu-box:8000/", "http://gpu-box:8000/v1", KEYED),
    ("http://[::1]:80", "http://[0:0::1]/v1", KEYED),
    ("https://b\u00fccher.example", "https://xn--bcher-kva.example", KEYED),
]


@pytest.mark.parametrize(("written", "url", "variable"), WRITTEN)
def test_a_grant_is_of_a_value_and_one_address(written, url, variable, monkeypatch):
    monkeypatch.setenv("GROQ_KEY", "a")
    assert not may_go(url, variable)
    value = os.environ[variable]
    for entry in (f"{variable}=${variable}", f"{variable}='{value}'"):
        monkeypatch.setenv(variable, value)
        monkeypatch.setenv(GRANTS, f"send A=b c.example; send {entry} {written}")
        assert may_go(url, variable)
        assert not may_go(url, "AWS_SECRET_ACCESS_KEY")
        other = "http://" if url.startswith("https") else "https://"
        assert not may_go(other + url.partition("//")[2], variable)
        monkeypatch.setenv(variable, "another")
        assert may_go(url, variable) == ("$" in entry)


@pytest.mark.parametrize(
    "entry",
    [
        *("*", "GROQ_API_KEY", "GROQ_API_KEY=https://api.groq.com", "npx -y server"),
        *("send", "send A=$A", "send A=$A https://me@x", "send A=$A http://"),
        *("send A=$A ''", "start 'a"),
    ],
)
def test_an_entry_that_names_nothing_is_told(entry, monkeypatch):
    monkeypatch.setenv("TOOLBANK_GRANTS", entry)
    with pytest.raises(InputError, match=r"TOOLBANK_GRANTS: .*`send"):
        is_granted(grant_to_send("OPENAI_API_KEY", "https://example.com", ""))


def mine(folder, server, **settings):
    return write_recipe(folder, base_url=server.url, model="m", queries=3, **settings)


def test_a_recipe_sends_no_secret_of_its_choosing(tmp_path, server, monkeypatch):
    path = mine(tmp_path, server, api_key_env="AWS_SECRET_ACCESS_KEY")
    with pytest.raises(InputError, match=r"mine\.yaml") as told:
        run_recipe(load_recipe(path), tmp_path / "out")
    assert not server.calls and not (tmp_path / "out").exists()
    assert OTHER not in str(told.value)
    monkeypatch.setenv(GRANTS, read_line(str(told.value)))
    assert run(server, path) == {f"Bearer {OTHER}"}


HEAD = "name: mine\nsources: [{type: python, package: statistics}]\nbaselines: false\n"
LEFT = {
    "generate": "generate: {model: m, base_url: 'URL', queries: 3}",
    "batch": "generate: {engine: batch, options: {submit: true}, model: m, base_url: 'URL'}",
    "judge": "generate: {engine: rules, queries: 30}\n"
    "judge: {engine: openai, model: m, base_url: 'URL'}",
    "decompose": "generate: {engine: rules, queries: 30}\n"
    "retrievers: [{type: bm25}, {type: decomposition, first_stage: bm25, decompose: "
    "{engine: openai, model: m, base_url: 'URL', replies: r.sqlite}}]",
}


@pytest.mark.parametrize("part", LEFT)
def test_no_part_of_a_recipe_sends_the_default_key_to_an_unnamed_host(part, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + LEFT[part].replace("URL", "https://api.example.invalid/v1"))
    recipe = load_recipe(str(path))
    line = f"send {KEYED}='<secret of 18 characters>' https://api.example.invalid"
    with pytest.raises(InputError, match=re.escape(line)):
        run_recipe(recipe, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert describe_plan(recipe, tmp_path / "out").count(line) == 1


def test_this_machine_gets_no_key_until_it_is_named(tmp_path, server):
    for variable in ("NOWHERE_SET", None):
        (sent,) = run(server, mine(tmp_path, server, api_key_env=variable))
        assert sent is None or (variable and KEY not in sent)
    path = mine(tmp_path, server)
    assert run(server, path) == {"Bearer none"}
    name_host(server.url)
    assert run(server, path) == {f"Bearer {KEY}"}


def test_where_a_key_is_wanted_the_line_to_set_is_named(tmp_path, monkeypatch):
    with ChatServer(lambda call: Answer.error(401)) as server:
        monkeypatch.setenv(GRANTS, "")
        recipe = load_recipe(mine(tmp_path, server))
        with pytest.raises(Exception, match="was not sent") as caught:
            run_recipe(recipe, tmp_path / "out")
        assert read_line(str(caught.value)) == grant_of(server.url)


def test_what_the_user_types_is_named_for_that_command(tmp_path, server):
    path = write_recipe(tmp_path, base_url="https://x.invalid/v1", model="m", queries=3)
    assert run(server, path, f"generate.base_url={server.url}") == {f"Bearer {KEY}"}
    assert not may_go(server.url)


def test_a_host_that_was_typed_gets_no_other_secret_of_the_recipe(tmp_path, server):
    path = mine(tmp_path, server, api_key_env="AWS_SECRET_ACCESS_KEY")
    typed = [f"generate.base_url={server.url}"]
    typed.append("generate.api_key_env=AWS_SECRET_ACCESS_KEY")
    for one in typed:
        with pytest.raises(InputError, match="AWS_SECRET_ACCESS_KEY"):
            run(server, path, one)
    assert not server.calls
    assert run(server, path, *typed) == {f"Bearer {OTHER}"}


def test_what_is_typed_counts_for_its_own_recipe_alone():
    grant = grant_to_send("OPENAI_API_KEY", "https://x.invalid/v1", "")

    async def look():
        return is_granted(grant)

    # As in a notebook, whose loop is running.
    async def cell():
        with command_of("mine.yaml", [grant.route]):
            return aio.run(look())

    def look_from_another_thread():
        with command_of("other.yaml", []):
            return is_granted(grant)

    assert asyncio.run(cell())
    with command_of("mine.yaml", [grant.route]), ThreadPoolExecutor() as threads:
        assert not threads.submit(look_from_another_thread).result()
        assert is_granted(grant)
    assert not is_granted(grant)


URL_X = "base_url: 'http://x'"


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        (f"generate.parameters={{{URL_X}, headers: [1]}}", ()),
        (f"generate.parameters={{{URL_X}, api_key_env: [1]}}", ()),
        (f"generate.options={{{URL_X}, headers: {{a: OPENAI_API_KEY}}}}", ()),
        ("generate.queries=20", ()),
        (
            "retrievers.1.decompose.base_url=https://x.invalid/v1",
            ("https://x.invalid",),
        ),
    ],
)
@pytest.mark.parametrize("baselines", ["true", "false"])
def test_what_is_typed_counts_where_it_is_an_endpoint(
    typed, named, baselines, tmp_path
):
    path = tmp_path / "mine.yaml"
    text = LEFT["decompose"].replace("URL", "https://y.invalid/v1")
    path.write_text(HEAD.replace("false", baselines) + text)
    read = load_recipe(str(path), [typed]).typed
    assert read == tuple((KEYED, host) for host in named)


def preview(folder, said):
    """The command on a terminal; its exit code and what it prints there."""
    return answer_on_terminal(["preview", "mine.yaml", "--count", 1], said, cwd=folder)


@pytest.mark.slow
def test_a_terminal_is_asked_once_and_the_answer_is_kept(tmp_path, server, monkeypatch):
    def preview_without_a_terminal():
        return toolbank("preview", "mine.yaml", "--count", 1, cwd=tmp_path)

    mine(tmp_path, server, api_key_env="AWS_SECRET_ACCESS_KEY")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    done = preview_without_a_terminal()
    assert done.returncode == 2 and "TOOLBANK_GRANTS" in done.stderr
    code, told = preview(tmp_path, "n\n")
    assert code == 2 and "`api_key_env: null`" in told and "`token_env`" in told
    assert not server.calls
    code, told = preview(tmp_path, "y\n")
    place = server.url.removesuffix("/v1")
    assert code == 0 and "mine.yaml" in told and place in told
    sent = {call.headers["authorization"] for call in server.calls}
    assert sent == {f"Bearer {OTHER}"}
    kept = Path(os.environ["XDG_CONFIG_HOME"], "toolbank", "grants")
    assert f"{place} scrypt:" in kept.read_text().splitlines()[-1]
    assert OTHER not in kept.read_text() and kept.stat().st_mode & 0o777 == 0o600
    assert preview_without_a_terminal().returncode == 0
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"{OTHER}2")
    assert preview_without_a_terminal().returncode == 2


@pytest.mark.parametrize(
    "url", ["https://api.groq.com/openai/v1", "http://192.168.1.5:8000/v1"]
)
def test_init_names_no_endpoint_and_says_how_to(url, tmp_path, monkeypatch):
    arguments = ("mine", "--package", "json", "--base-url", url, "--model", "m")
    done = toolbank("init", *arguments, cwd=tmp_path)
    assert done.returncode == 0
    assert not may_go(url)
    assert not Path(os.environ["XDG_CONFIG_HOME"], "toolbank").exists()
    monkeypatch.setenv(GRANTS, read_line(done.stdout))
    assert may_go(url)
    assert KEY not in (tmp_path / "mine.yaml").read_text()


def test_a_plan_has_the_one_line_that_names_all_hosts(tmp_path, monkeypatch):
    monkeypatch.setenv(GRANTS, grant_of("https://z.invalid"))
    path = tmp_path / "mine.yaml"
    _, _, judge = LEFT["judge"].partition("\n")
    generate = LEFT["generate"].replace("3}", "30}")
    text = f"{HEAD}{generate}\n{judge.replace('URL', 'https://b.invalid')}"
    path.write_text(text.replace("URL", "https://a.invalid/v1"))
    recipe = load_recipe(str(path))
    told = describe_plan(recipe, tmp_path / "out")
    assert told.count(f'export {GRANTS}="${GRANTS}; "') == 1
    monkeypatch.setenv(GRANTS, read_line(told))
    assert "export" not in describe_plan(recipe, tmp_path / "out")


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
NAMES = st.from_regex(r"[A-Z]{1,2}", fullmatch=True)
# A secret has characters that nothing else has.
SECRETS = st.text("\u00e4\u00f6\u00fc", min_size=1, max_size=20)


@st.composite
def values(draw):
    before, secret, after = draw(TEXTS), draw(st.just("") | SECRETS), draw(TEXTS)
    assume(not set(before + after) & set("\u00e4\u00f6\u00fc"))
    start = len(before)
    spans = ((start, start + len(secret)),) if secret else ()
    return GrantValue(before + secret + after, spans)


GRANT = st.builds(
    Grant,
    st.sampled_from(["send", "start"]),
    st.lists(values(), max_size=3).map(tuple),
    st.dictionaries(NAMES, values(), max_size=3).map(dict.items).map(tuple),
)


@settings(max_examples=15)
@given(GRANT, GRANT, st.randoms())
def test_two_grants_have_one_hash_if_and_only_if_they_are_equal(one, other, random):
    salt = "0123456789abcdef"
    assert (one.hash(salt) == other.hash(salt)) == (one == other)
    shuffled = random.sample(one.values, len(one.values))
    again = Grant(one.action, one.target, tuple(shuffled))
    assert again == one and again.hash(salt) == one.hash(salt)
    assert again.is_written_as(shlex.split(one.hashed()))


@settings(max_examples=15)
@given(GRANT, st.data())
def test_a_grant_that_differs_in_anything_is_asked_for(one, data):
    texts = (*one.target, *(value for _, value in one.values))
    assume(texts)
    changed = data.draw(st.sampled_from(texts))
    other = GrantValue(f"{changed.text}x", changed.secrets)

    def change(value):
        return other if value is changed else value

    target = tuple(map(change, one.target))
    named = tuple((name, change(value)) for name, value in one.values)
    for grant in (
        Grant(one.action, target, named),
        Grant(one.action, (*one.target, GrantValue("")), one.values),
        Grant(one.action, one.target, (*one.values, ("NEW", GrantValue("")))),
    ):
        assert grant != one
        assert not grant.is_written_as(shlex.split(one.hashed()))


@given(GRANT)
def test_a_grant_is_shown_in_full_but_for_its_secrets(grant):
    shown = str(grant)
    assert not set("\u00e4\u00f6\u00fc") & set(f"{shown}{grant!r}{grant.entry()}")
    assert shown.isprintable()
    words = shlex.split(shown)
    assert words[0] == grant.action
    named = [f"{name}={value.shown}" for name, value in grant.values]
    assert words[1:] == [*named, *(value.shown for value in grant.target)]
    for value in (*grant.target, *(value for _, value in grant.values)):
        for start, end in value.secrets or ((len(value.text), len(value.text)),):
            for visible in (value.text[:start], value.text[end:]):
                assert not visible.isprintable() or visible in value.shown


def test_what_two_processes_are_answered_at_once_is_kept(tmp_path, monkeypatch):
    grants = [grant_to_send(KEYED, f"https://{n}.example", "") for n in "abcd"]
    command = (
        "import sys; from toolbank.system import consent as c; c.confirm = lambda _: True;"
        "c.require_consent([c.grant_to_send('OPENAI_API_KEY', sys.argv[1], '')], 'x')"
    )
    arguments = [[sys.executable, "-c", command, grant.route[1]] for grant in grants]
    running = [subprocess.Popen(each) for each in arguments]
    assert [process.wait() for process in running] == [0] * 4
    assert find_missing(grants) == []
