from agentjobs.webhooks.concurrency import (
    SLOW_MS,
    AttemptKind,
    Candidate,
    ScanCursor,
    SlotPool,
    Slots,
)


def candidates(endpoint: str, count: int, organization: str = "org_a") -> list[Candidate]:
    return [Candidate(f"{endpoint}-{number}", endpoint, organization) for number in range(count)]


def selected_ids(slots: Slots, *waiting: Candidate, kind: AttemptKind = "first") -> list[str]:
    return [candidate.id for _, candidate in slots.copy().select(kind, waiting)]


def fill(slots: Slots, *waiting: Candidate, kind: AttemptKind = "first") -> None:
    slots.select(kind, waiting)


def test_endpoints_share_slots_round_robin() -> None:
    slots = Slots(4, 4)

    ids = selected_ids(slots, *candidates("a", 9), *candidates("b", 9, "org_b"))

    assert ids == ["a-0", "b-0", "a-1", "b-1"]


def test_the_endpoint_with_fewer_attempts_in_progress_comes_first() -> None:
    slots = Slots(4, 4)
    fill(slots, *candidates("a", 3))

    assert selected_ids(slots, *candidates("a", 9), *candidates("b", 9, "org_b")) == ["b-0"]


def test_an_endpoint_cannot_exceed_its_limit() -> None:
    slots = Slots(100, 3)

    assert len(selected_ids(slots, *candidates("a", 9))) == 3


def test_a_released_slot_is_available_again() -> None:
    slots = Slots(100, 1)
    fill(slots, *candidates("a", 1))
    assert slots.saturated_endpoints("first") == {"a"}
    assert selected_ids(slots, *candidates("a", 1)) == []

    slots.release(SlotPool("first"), "a", "org_a")

    assert slots.saturated_endpoints("first") == set()
    assert selected_ids(slots, *candidates("a", 1)) == ["a-0"]


def test_one_organization_leaves_a_quarter_of_the_slots_to_others() -> None:
    slots = Slots(8, 1)
    fill(slots, *(candidate for name in "abcdefghij" for candidate in candidates(name, 1)))

    assert slots.saturated_organizations("first") == {"org_a"}
    assert (
        len(
            selected_ids(
                slots, *(candidate for name in "xyz" for candidate in candidates(name, 1, "b"))
            )
        )
        == 2
    )


def test_retries_do_not_use_the_slots_of_first_attempts() -> None:
    slots = Slots(8, 8)
    fill(slots, *candidates("a", 9), kind="retry")

    assert selected_ids(slots, *candidates("a", 9), kind="retry") == []
    assert len(selected_ids(slots, *candidates("a", 9))) == 6


def test_slow_endpoints_have_separate_slots() -> None:
    slots = Slots(8, 4)
    for name in ("a", "b", "c", "d", "e"):
        slots.record_duration(name, SLOW_MS)
    slow = [candidate for name in "abcde" for candidate in candidates(name, 9)]
    fill(slots, *slow)
    fill(slots, *slow, kind="retry")

    assert selected_ids(slots, *slow) == []
    assert len(selected_ids(slots, *candidates("x", 9))) == 4
    assert len(selected_ids(slots, *candidates("x", 9), kind="retry")) == 2


def test_slow_endpoints_are_saturated_when_the_slow_slots_are_used() -> None:
    slots = Slots(2, 1)
    for name in ("a", "b"):
        slots.record_duration(name, SLOW_MS)
    fill(slots, *candidates("a", 1))

    assert slots.saturated_endpoints("first") == {"a", "b"}


def test_an_endpoint_that_responds_quickly_again_is_no_longer_slow() -> None:
    slots = Slots(4, 4)
    slots.record_duration("a", SLOW_MS)

    slots.record_duration("a", SLOW_MS - 1)

    assert slots.select("first", candidates("a", 1))[0][0] == SlotPool("first")


SCANNED = [("org_a", "a"), ("org_a", "b"), ("org_b", "c")]


def test_the_next_scan_begins_behind_the_last_endpoint_that_was_served() -> None:
    cursor = ScanCursor()

    cursor.advance(SCANNED, {"a", "b"}, is_truncated=False)
    assert cursor.after == ("org_a", "b")

    cursor.advance([SCANNED[2], *SCANNED[:2]], {"c", "a"}, is_truncated=False)
    assert cursor.after == ("org_a", "a")


def test_a_scan_without_free_slots_does_not_move_the_cursor() -> None:
    cursor = ScanCursor()
    cursor.advance(SCANNED, {"a"}, is_truncated=False)

    cursor.advance(SCANNED, set(), is_truncated=False)

    assert cursor.after == ("org_a", "a")


def test_a_truncated_scan_in_which_nothing_was_ready_is_passed() -> None:
    cursor = ScanCursor()

    cursor.advance(SCANNED, set(), is_truncated=True)

    assert cursor.after == ("org_b", "c")


def test_endpoints_share_the_free_slots() -> None:
    cursor = ScanCursor()
    assert cursor.share_per_endpoint(64) == 64

    cursor.advance([*SCANNED, ("org_b", "d")], set(), is_truncated=False)

    assert cursor.share_per_endpoint(64) == 16
    assert cursor.share_per_endpoint(1) == 1
