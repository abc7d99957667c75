"""When a fetch that hardly gets on is given up."""

import pytest

from agentjobs.repos.imports.progress import ImportProgress, Pace


@pytest.mark.parametrize(
    ("bytes_per_second", "gives_up_after"), [(0, 60), (1, 60), (1023, 60), (1024, None)]
)
def test_what_comes_too_slowly_is_given_up_after_a_minute(bytes_per_second, gives_up_after):
    pace = Pace()
    slow = [at for at in range(600) if pace.is_too_slow(float(at), at * bytes_per_second)]
    assert (slow[0] if slow else None) == gives_up_after


def test_what_was_fast_once_has_no_right_to_stay():
    pace = Pace()
    assert not any(pace.is_too_slow(float(at), at * 2**20) for at in range(100))
    received = 99 * 2**20
    slow = [at for at in range(100, 300) if pace.is_too_slow(float(at), received)]
    assert slow[0] == 159


def test_a_short_silence_is_forgiven():
    pace = Pace()
    received = 0
    for at in range(600):
        if at % 50 == 0:
            received += 2**20
        assert not pace.is_too_slow(float(at), received)


@pytest.mark.parametrize(
    ("said", "has_everything"),
    [
        (b"", False),
        (b"Receiving objects:  99% (9/10)\r", False),
        (b"remote: Resolving deltas: 100% (1/1)\n", False),
        (b"Receiving objects: 100% (10/10), done.\n", True),
        (b"Resolving deltas:   1% (1/99)\r", True),
    ],
)
def test_what_git_does_by_itself_is_not_the_others_slowness(said, has_everything):
    progress = ImportProgress()
    progress.note(said)
    assert progress.has_everything is has_everything
