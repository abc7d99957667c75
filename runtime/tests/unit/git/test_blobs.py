"""The output of `git cat-file --batch` is split into blobs, whatever they contain."""

import pytest

from agentjobs_runtime.git.blobs import MissingObject, split_batch

OID = b"a" * 40


def test_blobs_may_contain_what_looks_like_a_header() -> None:
    blobs = [b"", b"\n", OID + b" blob 3\nabc\n", b"last"]
    batch = b"".join(b"%s blob %d\n%s\n" % (OID, len(blob), blob) for blob in blobs)
    assert list(split_batch(batch)) == blobs


@pytest.mark.parametrize("header", [OID + b" missing\n", OID + b" tree 2\nxx\n"])
def test_a_missing_object_is_an_error(header: bytes) -> None:
    with pytest.raises(MissingObject, match="is not a blob in this repository"):
        list(split_batch(header))
