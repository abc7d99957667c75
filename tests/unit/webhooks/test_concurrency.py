from agentjobs.webhooks.concurrency import SLOW_MS, Candidate, Kind, Lane, Lanes


def candidates(endpoint: str, count: int, organization: str = "org_a") -> list[Candidate]:
    return [Candidate(f"{endpoint}-{number}", endpoint, organization) for number in range(count)]


def chosen(lanes: Lanes, *waiting: Candidate, kind: Kind = "first") -> list[str]:
    return [one.id for _, one in lanes.draft().choose(kind, waiting)]


def fill(lanes: Lanes, *waiting: Candidate, kind: Kind = "first") -> None:
    lanes.choose(kind, waiting)


def test_endpoints_take_turns_when_there_is_not_room_for_all() -> None:
    lanes = Lanes(4, 4)

    ids = chosen(lanes, *candidates("a", 9), *candidates("b", 9, "org_b"))

    assert ids == ["a-0", "b-0", "a-1", "b-1"]


def test_who_has_less_under_way_comes_first() -> None:
    lanes = Lanes(4, 4)
    fill(lanes, *candidates("a", 3))

    assert chosen(lanes, *candidates("a", 9), *candidates("b", 9, "org_b")) == ["b-0"]


def test_an_endpoint_has_no_more_than_its_share() -> None:
    lanes = Lanes(100, 3)

    assert len(chosen(lanes, *candidates("a", 9))) == 3


def test_what_ended_makes_room_again() -> None:
    lanes = Lanes(100, 1)
    fill(lanes, *candidates("a", 1))
    assert lanes.full_endpoints("first") == {"a"}
    assert chosen(lanes, *candidates("a", 1)) == []

    lanes.leave(Lane("first"), "a", "org_a")

    assert lanes.full_endpoints("first") == set()
    assert chosen(lanes, *candidates("a", 1)) == ["a-0"]


def test_one_organization_leaves_a_quarter_to_the_others() -> None:
    lanes = Lanes(8, 1)
    fill(lanes, *(one for name in "abcdefghij" for one in candidates(name, 1)))

    assert lanes.full_organizations("first") == {"org_a"}
    assert len(chosen(lanes, *(one for name in "xyz" for one in candidates(name, 1, "b")))) == 2


def test_retries_do_not_take_the_room_of_first_attempts() -> None:
    lanes = Lanes(8, 8)
    fill(lanes, *candidates("a", 9), kind="retry")

    assert chosen(lanes, *candidates("a", 9), kind="retry") == []
    assert len(chosen(lanes, *candidates("a", 9))) == 6


def test_endpoints_that_were_slow_have_lanes_of_their_own() -> None:
    lanes = Lanes(8, 4)
    for name in ("a", "b", "c", "d", "e"):
        lanes.learn(name, SLOW_MS)
    slow = [one for name in "abcde" for one in candidates(name, 9)]
    fill(lanes, *slow)
    fill(lanes, *slow, kind="retry")

    assert chosen(lanes, *slow) == []
    assert len(chosen(lanes, *candidates("x", 9))) == 4
    assert len(chosen(lanes, *candidates("x", 9), kind="retry")) == 2


def test_when_the_slow_lane_is_full_slow_endpoints_are_not_looked_at() -> None:
    lanes = Lanes(2, 1)
    for name in ("a", "b"):
        lanes.learn(name, SLOW_MS)
    fill(lanes, *candidates("a", 1))

    assert lanes.full_endpoints("first") == {"a", "b"}


def test_an_endpoint_that_answers_quickly_again_is_slow_no_longer() -> None:
    lanes = Lanes(4, 4)
    lanes.learn("a", SLOW_MS)

    lanes.learn("a", SLOW_MS - 1)

    assert lanes.choose("first", candidates("a", 1))[0][0] == Lane("first")
