import json

import pytest

from tests.sources.resolving import resolve_to
from tests.sources.sphinx_server import SiteServer
from toolbank.sources import documents as bounds
from toolbank.sources.documents import Documents
from toolbank.system.errors import InputError, ToolbankError


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "site"
    (folder / "more").mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps({"a": 1}))
    (folder / "more" / "part.yaml").write_text("b: 2")
    with SiteServer(folder) as server:
        yield server


@pytest.fixture
def other(tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "part.json").write_text(json.dumps({"c": 3}))
    with SiteServer(folder) as server:
        yield server


def test_a_document_and_its_parts_are_read_from_one_origin(site):
    documents = Documents()
    spec = documents.open(f"{site.url}spec.json")
    part = documents.follow(spec, "more/part.yaml")
    assert (spec.content, part.content) == ({"a": 1}, {"b": 2})
    assert documents.follow(part, "../spec.json") is spec
    assert documents.follow(spec, f"{site.url}more/part.yaml") is part


def test_no_other_origin_is_asked_unless_it_is_named(site, other):
    reference = f"{other.url}part.json"
    documents = Documents()
    spec = documents.open(f"{site.url}spec.json")
    with pytest.raises(InputError, match="`hosts:`"):
        documents.follow(spec, reference)
    # A host that is named still has to be public, or let in.
    documents = Documents(hosts=("127.0.0.1",))
    with pytest.raises(InputError, match="private address"):
        documents.follow(documents.open(f"{site.url}spec.json"), reference)
    assert other.connections == 0
    documents = Documents(hosts=("127.0.0.1",), private_addresses=True)
    spec = documents.open(f"{site.url}spec.json")
    assert documents.follow(spec, reference).content == {"c": 3}


@pytest.mark.parametrize("reference", ["file:///etc/hostname", "FILE:/etc/hostname"])
def test_no_file_is_read_for_a_url(site, reference):
    documents = Documents(private_addresses=True)
    with pytest.raises(InputError, match="cannot refer to a file"):
        documents.follow(documents.open(f"{site.url}spec.json"), reference)


def test_redirects_are_followed_on_this_site_alone(site, other):
    site.redirects["/old.json"] = "/spec.json"
    site.redirects["/away.json"] = f"{other.url}part.json"
    site.redirects["/loop.json"] = "/loop.json"
    documents = Documents()
    spec = documents.open(f"{site.url}old.json")
    assert spec.address == f"{site.url}spec.json"
    assert documents.follow(spec, "more/part.yaml").content == {"b": 2}
    with pytest.raises(InputError, match=r"away\.json: .* another site"):
        documents.follow(spec, "away.json")
    with pytest.raises(InputError, match="redirected in a loop"):
        documents.follow(spec, "loop.json")
    # The first document may have moved, but to no address within this machine.
    with pytest.raises(InputError, match="private address"):
        Documents().open(f"{site.url}away.json")
    assert other.connections == 0


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "169.254.169.254", "[::ffff:10.0.0.9]"]
)
def test_a_private_network_is_not_asked(address):
    with pytest.raises(InputError, match="private address"):
        Documents().open(f"http://{address}/openapi.json")


def test_a_public_name_does_not_lead_into_this_machine(site, monkeypatch):
    resolve_to(monkeypatch, "docs.example", ["127.0.0.1"])
    url = site.url.replace("127.0.0.1", "docs.example") + "spec.json"
    with pytest.raises(InputError, match="private address"):
        Documents().open(url)
    assert site.connections == 0
    assert Documents(private_addresses=True).open(url).content == {"a": 1}


def test_what_a_server_answers_instead_is_told(site, tmp_path):
    def refused(most_s=60.0):
        with pytest.raises(ToolbankError) as caught:
            Documents(most_s=most_s).open(f"{site.url}spec.json")
        return str(caught.value), type(caught.value) is InputError

    (tmp_path / "site" / "spec.json").write_text("<html>hello</html>")
    for status, said in ((200, "a web page"), (404, "status 404"), (503, "status 503")):
        site.statuses["/spec.json"] = [status]
        message, is_final = refused()
        assert said in message and is_final is (status != 503)
    site.hanging.add("/spec.json")
    message, is_final = refused(most_s=0.3)
    assert "timed out" in message and not is_final
    site.stop()
    message, is_final = refused()
    assert "connection refused" in message and not is_final


def test_bytes_and_files_are_bounded_in_sum(site, tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "_MOST_FILES", 2)
    documents = Documents()
    spec = documents.open(f"{site.url}spec.json")
    documents.follow(spec, "more/part.yaml")
    with pytest.raises(InputError, match="over 2 files"):
        documents.follow(spec, "third.json")
    (tmp_path / "site" / "large.json").write_text(json.dumps(["x" * 1_100_000]))
    with pytest.raises(InputError, match="too large"):
        Documents(most_mb=1).open(f"{site.url}large.json")
    with pytest.raises(InputError, match="over 1 MB"):
        Documents(most_mb=1).open(str(tmp_path / "site" / "large.json"))


def test_no_secret_of_an_address_is_shown(site):
    site.statuses["/spec.json?token=s3cr3t-value"] = [401]
    with pytest.raises(InputError, match="download the file") as caught:
        Documents().open(f"{site.url}spec.json?token=s3cr3t-value")
    assert "s3cr3t" not in str(caught.value)
    with pytest.raises(InputError) as caught:
        Documents().open("https://me:s3cr3t-value@api.example/spec.json")
    assert "s3cr3t" not in str(caught.value)
