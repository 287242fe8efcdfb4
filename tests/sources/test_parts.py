"""Methods that a user reaches by the attributes of a client, in classes that are private."""

from tests.sources.packages import MakePackage
from toolbank.sources.kind import Collected
from toolbank.sources.python.package import read_package
from toolbank.sources.python.settings import PythonSource

CLIENT = {
    "__init__.py": '''
    """Parcels of Acme."""
    from PKG._client import Client
    __all__ = ["Client"]
    ''',
    "_client.py": '''
    from __future__ import annotations
    from functools import cached_property
    from typing import TYPE_CHECKING, Optional
    from PKG import _parts
    from PKG._parts import _Shipments, _Transport
    if TYPE_CHECKING:
        from PKG._late import Webhooks

    class _Base:
        def __init__(self):
            self.shipments = _Shipments(self)

    class Client(_Base):
        """Talks to Acme."""

        rates: Optional[_parts._Rates]

        def __init__(self, token):
            super().__init__()
            self._transport = _Transport()
            self.zones: "_parts._Zones | None" = None
            self.depots = {}

        def close(self):
            "Close the connection."

        @cached_property
        def webhooks(self) -> Webhooks:
            from PKG._late import Webhooks
            return Webhooks(self)

        @property
        def carriers(self):
            return _parts._Carriers(self)

        @property
        def is_open(self) -> bool:
            "Whether it is open."
            return _parts._Unused().answer()
    ''',
    "_parts.py": '''
    class _Labels:
        """Labels to print."""
        def __init__(self, shipments):
            self.shipments: _Shipments = shipments
            self.printed = self.draft = _Draft()
        def create(self, parcel: str, copies: int = 1):
            "Create a label."
        def bare(self): pass
        def _send(self): "Private."
    class _Draft:
        def discard(self): "Discard it."
    class _Shipments:
        def __init__(self, client):
            self.labels = _Labels(self)
        def create(self, parcel: str): "Create a shipment."
        @classmethod
        def of(cls, parcel): "The shipment of a parcel."
    class _Rates:
        def find(self): "Find rates."
    class _Zones:
        def list(self): "List the zones."
    class _Carriers:
        async def list(self): "List the carriers."
    class _Transport:
        def send(self): "Send a request."
    class _Unused:
        def answer(self): "Hangs nowhere."
    ''',
    "_late.py": """
    class Webhooks:
        def add(self, url): "Add a webhook."
    """,
}


def read(package: str, **options: object) -> Collected:
    return read_package(PythonSource.model_validate({"package": package, **options}))


def names(read_back: Collected, package: str) -> list[str]:
    return [tool.name.removeprefix(f"{package}.") for tool in read_back.tools]


def test_methods_of_private_classes_are_tools_by_the_path_that_one_types(
    make_package: MakePackage,
) -> None:
    package = make_package(CLIENT)
    read_back = read(package)
    assert names(read_back, package) == [
        "Client",
        "Client.carriers.list",
        "Client.close",
        "Client.rates.find",
        "Client.shipments.create",
        "Client.shipments.labels.create",
        "Client.shipments.labels.draft.discard",
        "Client.shipments.of",
        "Client.webhooks.add",
        "Client.zones.list",
    ]
    by_name = dict(zip(names(read_back, package), read_back.tools, strict=True))
    create = by_name["Client.shipments.labels.create"]
    assert create.kind == "method"
    assert create.signature == f"{create.name}(parcel: str, copies: int = 1)"
    assert read_back.info["undocumented"] == [f"{package}.Client.shipments.labels.bare"]


def test_what_hangs_on_two_clients_is_one_tool_at_the_shorter_path(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": '''
            class _Shipments:
                def create(self): "Create a shipment."
            class _AsyncShipments(_Shipments):
                async def create(self): "Create a shipment."
            class _Version:
                def __init__(self): self.shipments = _Shipments()
                def about(self): "About it."
            class Client:
                def __init__(self):
                    self.v1 = _Version()
                    self.shipments = _Shipments()
            class Sandbox(Client):
                """A client that sends nothing."""
            class AsyncClient:
                def __init__(self): self.shipments = _AsyncShipments()
            '''
        }
    )
    assert names(read(package), package) == [
        "AsyncClient.shipments.create",
        "Client.shipments.create",
        "Client.v1.about",
    ]


def test_what_a_public_class_has_is_not_taken_by_another_path_too(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": """
            class _Parcels:
                def send(self): "Send one."
            class Parcels(_Parcels): pass
            class Labels:
                def create(self): "Create a label."
            class Client:
                def __init__(self):
                    self.parcels = _Parcels()
                    self.labels = Labels()
            """
        }
    )
    assert names(read(package), package) == ["Labels.create", "Parcels.send"]


def test_a_part_that_the_recipe_excludes_is_left_out_with_what_hangs_on_it(
    make_package: MakePackage,
) -> None:
    package = make_package(CLIENT)
    found = names(read(package, exclude=[f"{package}.Client.shipments"]), package)
    assert "Client.rates.find" in found
    assert not [name for name in found if "shipments" in name]


def test_what_only_running_it_would_tell_is_counted(make_package: MakePackage) -> None:
    package = make_package(
        {
            "__init__.py": """
            def _made(cls, client): return cls(client)
            class _Part:
                @classmethod
                def at(cls, client): return cls()
            class _Labels(_Part):
                def create(self): "Create a label."
            class _Rates(_Part):
                def find(self): "Find rates."
                def bare(self): pass
            class _Zones(_Part):
                def list(self): "List the zones."
            class Client:
                zones: dict[str, "_Zones"]
                def __init__(self):
                    self.labels = _made(_Labels, self)
                    self.rates = _Rates.at(self)
                    self._hidden = _made(_Hidden, self)
                def close(self): "Close it."
            class _Hidden:
                def send(self): "Nobody's business."
            """
        }
    )
    read_back = read(package)
    assert names(read_back, package) == ["Client.close"]
    assert read_back.info["left_out_examples"]["method of a private class"] == [
        f"{package}._Zones.list",
        f"{package}._Labels.create",
        f"{package}._Rates.find",
    ]
    [note] = read_back.notes
    assert note.endswith("left out: 3 methods of private classes")


def test_nothing_of_a_client_runs(make_package: MakePackage) -> None:
    package = make_package(
        {
            "__init__.py": """
            class _Shipments:
                def __init__(self): raise SystemExit("made")
                def create(self): "Create a shipment."
            class Client:
                @property
                def shipments(self) -> _Shipments: raise SystemExit("asked")
            """
        }
    )
    assert names(read(package), package) == ["Client.shipments.create"]


LATE = {
    "__init__.py": '''
    """Parcels of Acme."""
    from __future__ import annotations
    from typing import TYPE_CHECKING
    if TYPE_CHECKING:
        from . import _late
        import PKG._later as later
        import PKG._last
        from ._absent import _Zones
        from ._broken import _Labels
        from elsewhere import Session
    __all__ = ["Client"]
    class Client:
        """Talks to Acme."""
        session: Session
        @property
        def late(self) -> _late._Late: ...
        @property
        def later(self) -> later._Later: ...
        last: PKG._last._Last
        @property
        def zones(self) -> _Zones: ...
        labels: list[_Labels]
        _rates: _Zones
        def __init__(self, token): pass
        def close(self): "Close it."
    ''',
    "_late.py": """
    class _Late:
        def send(self): "Send it late."
    """,
    "_later.py": """
    class _Later:
        def send(self): "Send it later."
    """,
    "_last.py": """
    class _Last:
        def send(self): "Send it last."
    """,
    "_broken.py": "raise SystemExit('imported')",
}


def test_a_part_that_is_imported_for_its_annotation_alone_is_found(
    make_package: MakePackage,
) -> None:
    package = make_package(LATE)
    assert names(read(package), package) == [
        "Client",
        "Client.close",
        "Client.last.send",
        "Client.late.send",
        "Client.later.send",
    ]


def test_an_attribute_whose_class_is_not_found_in_the_package_is_counted(
    make_package: MakePackage,
) -> None:
    package = make_package(LATE)
    assert read(package).info["left_out_examples"]["can't be told what it holds"] == [
        f"{package}.Client.zones",
        f"{package}.Client.labels",
    ]
    no_methods = read(package, methods=False)
    assert "can't be told what it holds" not in no_methods.info["left_out"]


def test_of_two_classes_under_one_attribute_neither_is_taken_for_it(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": """
            class _Fast:
                def quote(self, a): "Quote fast."
            class _Slow:
                def quote(self, b): "Quote slowly."
                def extra(self): "More."
            class _Zones:
                def list(self): "List the zones."
            class _LocalZones(_Zones):
                def near(self): "Zones that are near."
            class Labels:
                def create(self): "Create a label."
            class Drafts:
                def discard(self): "Discard a draft."
            class Client:
                zones: _Zones
                def __init__(self, fast, zones=None):
                    if fast:
                        self.rates = _Fast()
                        self.labels = Labels()
                    else:
                        self.rates = _Slow()
                        self.labels = Drafts()
                    self.zones = _LocalZones()
            """
        }
    )
    read_back = read(package)
    assert names(read_back, package) == [
        "Client.zones.list",
        "Drafts.discard",
        "Labels.create",
    ]
    assert read_back.info["left_out_examples"]["method of a private class"] == [
        f"{package}._LocalZones.near",
        f"{package}._Fast.quote",
        f"{package}._Slow.extra",
        f"{package}._Slow.quote",
    ]


def test_what_a_function_within_a_property_returns_is_not_its_value(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": """
            class _Rates:
                def find(self): "Find rates."
            class _Draft:
                def discard(self): "Discard it."
            class Client:
                def __init__(self):
                    class Inner:
                        def __init__(self): self.drafts = _Draft()
                @property
                def rates(self):
                    def draft(): return _Draft()
                    return _Rates()
                @property
                def price(self):
                    def draft(): return _Draft()
                    return 1.0
            """
        }
    )
    assert names(read(package), package) == ["Client.rates.find"]
