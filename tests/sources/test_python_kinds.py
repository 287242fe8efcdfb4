"""What of a package is a tool: what can be called."""

from pathlib import Path

import pytest

from tests.sources.packages import MakePackage
from toolbank.sources.kind import Collected
from toolbank.sources.python.package import read_package
from toolbank.sources.python.settings import PythonSource
from toolbank.system.errors import InputError

# A client whose parts hang on it, what they answer with, and what they raise.
SDK = {
    "__init__.py": '''
    """Invoices of Acme."""
    from PKG._client import Client
    from PKG._base import AcmeError
    __all__ = ["AcmeError", "Client", "Color", "Invoice", "Line", "Page", "types"]
    from PKG.types import Color, Invoice, Line, Page
    ''',
    "_base.py": '''
    class AcmeError(Exception):
        """What goes wrong."""
        def retry(self): "Try again."
    class Transport:
        def request(self, path): "Send a request."
        def __enter__(self): "Open."
    ''',
    "_client.py": '''
    from functools import cached_property
    from PKG._base import Transport
    class Client(Transport):
        """Talks to Acme."""
        def __init__(self, token): self.token = token
        def close(self): "Close the connection."
        def _send(self): "Private."
        @cached_property
        def invoices(self):
            "The invoices."
        @property
        def is_open(self): "Whether it is open."
        @classmethod
        def from_env(cls): "Make one from the environment."
    ''',
    "resources/__init__.py": """
    from PKG.resources.invoices import AsyncInvoices, Invoices
    __all__ = ["AsyncInvoices", "Invoices"]
    """,
    "resources/invoices.py": """
    from typing import overload
    class Invoices:
        def __init__(self, client): self.client = client
        def list(self, limit: int = 20): "List the invoices."
        @overload
        def create(self, amount: int) -> dict:
            "Create an invoice."
        @overload
        def create(self, amount: str) -> dict:
            "Create an invoice from text."
        def create(self, amount): return {}
    class AsyncInvoices:
        def __init__(self, client): self.client = client
        async def list(self, limit: int = 20): "List the invoices."
    """,
    "types.py": '''
    """What Acme answers with."""
    from dataclasses import dataclass
    from enum import Enum
    from typing import NamedTuple, TypedDict
    from pydantic import BaseModel
    class Color(Enum):
        """Of paper."""
        RED = 1
        def mix(self): "Mix two."
    class Line(NamedTuple):
        """A line of an invoice."""
        text: str
        def total(self): "Its sum."
    class Page(TypedDict):
        """A page of invoices."""
        items: list
    class Invoice(BaseModel):
        """An invoice."""
        lines: list
        def total(self): "Its sum."
    @dataclass
    class Receipt:
        """A receipt."""
        amount: int
        def total(self): "Its sum."
    ''',
}


@pytest.fixture
def sdk(make_package: MakePackage) -> str:
    return make_package(SDK)


def read(package: str, **options: object) -> Collected:
    return read_package(PythonSource.model_validate({"package": package, **options}))


def kinds(read_back: Collected, package: str) -> dict[str, str]:
    return {
        tool.name.removeprefix(f"{package}."): tool.kind for tool in read_back.tools
    }


def test_of_a_client_what_can_be_called_are_the_tools(sdk: str) -> None:
    read_back = read(sdk)
    assert kinds(read_back, sdk) == {
        "Client": "class",
        "Client.close": "method",
        "Client.from_env": "method",
        "Client.request": "method",
        "resources.AsyncInvoices.list": "method",
        "resources.Invoices.create": "method",
        "resources.Invoices.list": "method",
    }
    by_name = {tool.name: tool for tool in read_back.tools}
    assert by_name[f"{sdk}.resources.Invoices.create"].summary == "Create an invoice."
    assert [*by_name[f"{sdk}.Client"].parameters["properties"]] == ["token"]


def test_what_is_left_out_is_counted_by_kind_with_the_key_that_takes_it(
    sdk: str,
) -> None:
    read_back = read(sdk)
    left_out = read_back.info["left_out"]
    assert {reason: left_out[reason] for reason in left_out if "kind" in reason} == {
        "kind enum": 1,
        "kind exception": 1,
        "kind module": 1,
        "kind property": 2,
        "kind record": 4,
    }


def named_kinds(note: str) -> list[str]:
    return note.partition("kinds: [")[2].partition("]")[0].split(", ")


def test_the_key_that_the_note_names_takes_them(sdk: str) -> None:
    [note] = read(sdk).notes
    read_back = read(sdk, kinds=named_kinds(note))
    assert not read_back.notes
    assert kinds(read_back, sdk)["types"] == "module"
    assert kinds(read_back, sdk)["Client.is_open"] == "property"
    assert {"Color.mix", "Invoice.total", "AcmeError.retry", "types.Receipt"} <= kinds(
        read_back, sdk
    ).keys()


def test_the_key_that_the_note_names_takes_methods_that_the_kinds_left_out(
    sdk: str, make_package: MakePackage
) -> None:
    [note] = read(sdk, kinds=["class"]).notes
    found = kinds(read(sdk, kinds=named_kinds(note)), sdk)
    assert found["Client.close"] == "method"
    package = make_package({"__init__.py": 'class Meter:\n    def read(self): "Read."'})
    with pytest.raises(InputError) as error:
        read(package, kinds=["function"])
    assert len(read(package, kinds=named_kinds(str(error.value))).tools) == 1


def test_methods_can_be_left_out_and_are_counted(sdk: str) -> None:
    read_back = read(sdk, kinds=["class", "method"], methods=False)
    assert kinds(read_back, sdk) == {"Client": "class"}
    assert read_back.info["left_out"]["kind method"] == 6
    [note] = read_back.notes
    assert "methods: false" in note


def test_methods_can_be_taken_without_the_classes(sdk: str) -> None:
    assert {*kinds(read(sdk, kinds=["method"]), sdk).values()} == {"method"}


def test_a_class_that_is_made_without_arguments_gives_its_methods_alone(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": '''
            from typing import Protocol
            class Meter:
                """Measures."""
                def read(self): "Read it."
            class Sender(Protocol):
                """Sends."""
                def send(self): "Send it."
            '''
        }
    )
    read_back = read(package)
    assert kinds(read_back, package) == {
        "Meter.read": "method",
        "Sender.send": "method",
    }
    assert read_back.info["left_out"] == {"class that is made without arguments": 2}


def test_the_roles_of_a_crawlers_file_are_the_kinds(
    sdk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "crawlers").mkdir()
    (tmp_path / "crawlers" / f"{sdk}.yaml").write_text(
        "base_url: http://127.0.0.1/\nobjects:\n  roles: [class, exception, module]\n"
    )
    monkeypatch.chdir(tmp_path)
    assert {*kinds(read(sdk), sdk)} == {
        *("AcmeError", "Client", "Color", "Invoice", "Line", "Page"),
        *("types", "types.Receipt"),
    }
    assert "AcmeError" not in kinds(read(sdk, kinds=["class"]), sdk)


def test_what_hangs_on_a_client_counts_though_all_does_not_name_its_module(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": '__all__ = ["Client"]\nfrom PKG.client import Client',
            "client.py": '''
            from PKG._hidden import Cache
            from PKG.resources import Invoices, Users
            class _Base:
                def __init__(self): self.invoices = Invoices(self)
            class Client(_Base):
                """Talks to Acme."""
                def __init__(self, token): self._cache = Cache()
                @property
                def users(self): return Users(self)
            ''',
            "resources.py": """
            class Lines:
                def add(self): "Add a line."
            class Invoices:
                def __init__(self, client): self.lines = Lines()
                def create(self): "Create an invoice."
            class Users:
                def invite(self): "Invite a user."
            class Unused:
                def lose(self): "Hangs nowhere."
            """,
            "_hidden.py": 'class Cache:\n    def clear(self): "Clear it."',
        }
    )
    assert {*kinds(read(package), package)} == {
        "Client",
        "resources.Invoices.create",
        "resources.Lines.add",
        "resources.Users.invite",
    }


def test_a_package_of_which_nothing_can_be_called_is_told_with_what_it_has(
    make_package: MakePackage,
) -> None:
    package = make_package({"__init__.py": 'class Wrong(Exception): "Went wrong."'})
    with pytest.raises(InputError, match="left out: 1 exception; kinds: "):
        read(package)


def test_an_enum_whose_members_are_texts_or_numbers_is_an_enum(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": """
            from PKG.carriers import Carrier, Weight, Width
            def send(carrier): "Send it."
            """,
            "carriers.py": '''
            from enum import Enum, IntEnum
            class Carrier(str, Enum):
                """Who brings it."""
                DHL = "dhl"
            class Weight(IntEnum):
                """In grams."""
                LETTER = 20
            class Width(float):
                """In metres."""
            ''',
        }
    )
    read_back = read(package)
    assert "left out: 2 enums; kinds: " in read_back.notes[0]
    assert read_back.info["left_out_examples"]["kind enum"] == [
        f"{package}.Carrier",
        f"{package}.Weight",
    ]
    enums = kinds(read(package, kinds=["enum"]), package)
    assert enums == {"Carrier": "class", "Weight": "class"}


def test_what_has_no_docstring_is_counted_once_and_named(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": """
            from PKG.hub import Error, Hub, bare
            def send(parcel): "Send it."
            """,
            "hub.py": '''
            def bare(parcel): pass
            class Error(Exception): pass
            class Hub:
                """Takes parcels."""
                def __init__(self, place): self.place = place
                def close(self): "Close it."
                def open(self): pass
                @property
                def size(self): return 1
                def _inner(self): pass
            ''',
        }
    )
    [note] = read(package).notes
    assert note.endswith(
        f"left out: 2 without a docstring ({package}.Hub.open, {package}.bare)"
    )
    assert "(" not in read(package, kinds=["class"]).notes[0].partition("left out")[2]


def test_of_many_without_a_docstring_a_few_are_named(make_package: MakePackage) -> None:
    lines = [f"def f{number}(): pass" for number in range(5)]
    package = make_package({"__init__.py": "\n".join(['def f(): "F."', *lines])})
    read_back = read(package)
    assert f"{package}.f2 and 2 more)" in read_back.notes[0]
    assert f"{package}.f4" in read_back.info["undocumented"]
