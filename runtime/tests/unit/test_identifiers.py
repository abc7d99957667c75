import os

from agentjobs_runtime.clock import iso_utc, now_ms
from agentjobs_runtime.identifiers import creation_time_ms, first_id_at, new_id, new_id_start


def test_starts_of_identifiers_have_room_for_two_digits_and_sort_among_others():
    made = []
    for _ in range(1_000):
        made += [new_id("dlv"), *(new_id_start("dlv") + digits for digits in ("01", "64", "zz"))]
    assert made == sorted(set(made))
    assert {len(identifier) for identifier in made} == {30}


def test_later_identifiers_sort_after_earlier_ones() -> None:
    new_ids = [new_id("job") for _ in range(1_000)]
    assert new_ids == sorted(new_ids)
    assert len(set(new_ids)) == len(new_ids)


def test_an_identifier_contains_its_type_and_time() -> None:
    before = now_ms()
    new_ids = new_id("repo")
    assert first_id_at("repo", before) <= new_ids < first_id_at("repo", now_ms() + 1)


def test_the_time_of_an_identifier_can_be_read_from_it() -> None:
    before = now_ms()
    assert before <= creation_time_ms(new_id("job")) <= now_ms()
    for moment in (0, 1, 1_700_000_000_042, 2**48 - 1):
        assert creation_time_ms(first_id_at("dlv", moment)) == moment


def test_times_are_utc_with_milliseconds() -> None:
    assert iso_utc(0) == "1970-01-01T00:00:00.000Z"
    assert iso_utc(1_700_000_000_042) == "2023-11-14T22:13:20.042Z"


def test_a_forked_process_does_not_repeat_the_identifiers_of_its_parent() -> None:
    new_id("job")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, "\n".join(new_id("job")[-16:] for _ in range(50)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as made_by_child:
        theirs = set(made_by_child.read().splitlines())
    os.waitpid(child, 0)
    assert len(theirs) == 50
    assert theirs.isdisjoint(new_id("job")[-16:] for _ in range(50))
