"""When an import counts as too slow."""

import pytest

from agentjobs.repos.imports.progress import ImportProgress, MinTransferRate


@pytest.mark.parametrize(
    ("bytes_per_second", "too_slow_after"), [(0, 60), (1, 60), (1023, 60), (1024, None)]
)
def test_a_slow_transfer_is_too_slow_after_a_minute(bytes_per_second, too_slow_after):
    min_rate = MinTransferRate()
    slow = [at for at in range(600) if min_rate.is_too_slow(float(at), at * bytes_per_second)]
    assert (slow[0] if slow else None) == too_slow_after


def test_a_stalled_transfer_is_too_slow_even_if_it_was_fast_before():
    min_rate = MinTransferRate()
    assert not any(min_rate.is_too_slow(float(at), at * 2**20) for at in range(100))
    received = 99 * 2**20
    slow = [at for at in range(100, 300) if min_rate.is_too_slow(float(at), received)]
    assert slow[0] == 159


def test_a_short_stall_is_tolerated():
    min_rate = MinTransferRate()
    received = 0
    for at in range(600):
        if at % 50 == 0:
            received += 2**20
        assert not min_rate.is_too_slow(float(at), received)


@pytest.mark.parametrize(
    ("output", "is_transferred"),
    [
        (b"", False),
        (b"Receiving objects:  99% (9/10)\r", False),
        (b"remote: Resolving deltas: 100% (1/1)\n", False),
        (b"Receiving objects: 100% (10/10), done.\n", True),
        (b"Resolving deltas:   1% (1/99)\r", True),
    ],
)
def test_a_fetch_is_transferred_once_only_local_processing_remains(output, is_transferred):
    progress = ImportProgress()
    progress.feed(output)
    assert progress.is_transferred is is_transferred
