from agentjobs.clock import iso_utc, now_ms
from agentjobs.identifiers import first_id_at, new_id, time_of


def test_later_identifiers_sort_after_earlier_ones() -> None:
    made = [new_id("job") for _ in range(1_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_an_identifier_contains_its_type_and_time() -> None:
    before = now_ms()
    made = new_id("repo")
    assert first_id_at("repo", before) <= made < first_id_at("repo", now_ms() + 1)


def test_the_time_of_an_identifier_can_be_read_from_it() -> None:
    before = now_ms()
    assert before <= time_of(new_id("job")) <= now_ms()
    for moment in (0, 1, 1_700_000_000_042, 2**48 - 1):
        assert time_of(first_id_at("dlv", moment)) == moment


def test_times_are_utc_with_milliseconds() -> None:
    assert iso_utc(0) == "1970-01-01T00:00:00.000Z"
    assert iso_utc(1_700_000_000_042) == "2023-11-14T22:13:20.042Z"
