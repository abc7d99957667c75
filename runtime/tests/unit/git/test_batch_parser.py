"""Parsing the output of `git cat-file --batch`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_runtime.git.blobs import BatchParser, MissingObject


def protocol(blobs: list[bytes]) -> bytes:
    return b"".join(b"%040x blob %d\n%b\n" % (1, len(blob), blob) for blob in blobs)


def parse(chunks: list[bytes]) -> tuple[list[bytes], int]:
    parser = BatchParser()
    blobs, gathered = [], b""
    for chunk in chunks:
        for piece, is_last in parser.pieces(chunk):
            gathered += piece
            if is_last:
                blobs.append(gathered)
                gathered = b""
    return blobs, parser.blob_count


@given(st.lists(st.binary(max_size=30), max_size=8), st.integers(1, 40))
def test_blobs_are_parsed_from_any_chunks(blobs: list[bytes], chunk_size: int) -> None:
    stream = protocol(blobs)
    chunks = [stream[at : at + chunk_size] for at in range(0, len(stream), chunk_size)]
    assert parse(chunks) == (blobs, len(blobs))


def test_a_missing_object_is_an_error() -> None:
    with pytest.raises(MissingObject, match="not a blob"):
        parse([b"1" * 40 + b" missing\n"])
