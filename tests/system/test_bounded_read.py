"""How much is read of an answer, and how it is uncompressed."""

import gzip
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.system.http import (
    BoundedReader,
    EncodingError,
    TooLargeError,
    read_encodings,
)


def without_head(content):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(content) + packer.flush()


PACKED = {
    "gzip": [
        gzip.compress,
        lambda content: gzip.compress(content[:5]) + gzip.compress(content[5:]),
    ],
    "x-gzip": [gzip.compress],
    "deflate": [zlib.compress, without_head, gzip.compress],
}
WAYS = [(name, pack) for name, packs in PACKED.items() for pack in packs]


def read(content, most, encodings=(), cuts=()):
    """What is read of a body that comes in pieces, and whether that is all."""
    places = sorted({0, len(content), *(cut % (len(content) + 1) for cut in cuts)})

    reader, body = BoundedReader(most, encodings), bytearray()
    try:
        for start, end in pairwise(places):
            for part in reader.feed(content[start:end]):
                body += part
    except TooLargeError:
        return bytes(body), False
    reader.end()
    return bytes(body), True


@given(
    st.binary(max_size=300),
    st.lists(st.sampled_from(WAYS), max_size=2),
    st.lists(st.integers(0, 10_000), max_size=5),
)
def test_a_body_is_uncompressed_however_it_was_packed_and_cut(content, ways, cuts):
    packed = content
    for _, pack in ways:
        packed = pack(packed)
    names = read_encodings(", ".join(name for name, _ in ways))
    assert read(packed, 10_000, names, cuts) == (content, True)
    if content:
        body, is_whole = read(packed, min(len(content), len(packed)) - 1, names, cuts)
        assert not is_whole and content.startswith(body)


@pytest.mark.parametrize(("name", "pack"), WAYS)
def test_a_bomb_is_unpacked_no_further_than_allowed(name, pack):
    body, is_whole = read(pack(bytes(50_000_000)), 100_000, [name])
    assert (body, is_whole) == (bytes(100_000), False)


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_what_is_damaged_or_cut_short_is_an_error(name):
    packed = PACKED[name][0](b"a" * 1000)
    for wrong in (packed[:-1], packed[:12], b"xx" + packed):
        with pytest.raises(zlib.error):
            read(wrong, 10_000, [name])
    assert read_encodings("") == read_encodings(" identity") == []
    with pytest.raises(EncodingError, match="gzip, br"):
        read_encodings("gzip, BR")
