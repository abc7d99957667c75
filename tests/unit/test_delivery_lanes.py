from agentjobs.webhooks.lanes import SLOW_MS, Candidate, Lanes


def candidates(endpoint: str, count: int, organization: str = "org_a") -> list[Candidate]:
    return [Candidate(f"{endpoint}-{number}", endpoint, organization) for number in range(count)]


def chosen(lanes: Lanes, *waiting: Candidate, are_retries: bool = False) -> list[str]:
    return [one.id for _, one in lanes.choose(waiting, are_retries=are_retries)]


def fill(lanes: Lanes, *waiting: Candidate, are_retries: bool = False) -> None:
    for lane, one in lanes.choose(waiting, are_retries=are_retries):
        lanes.enter(lane, one.endpoint_id, one.organization_id)


def test_endpoints_take_turns_when_there_is_not_room_for_all() -> None:
    lanes = Lanes(4, 4)

    ids = chosen(lanes, *candidates("a", 9), *candidates("b", 9, "org_b"))

    assert ids == ["a-0", "b-0", "a-1", "b-1"]


def test_an_endpoint_has_no_more_than_its_share() -> None:
    lanes = Lanes(100, 3)

    assert len(chosen(lanes, *candidates("a", 9))) == 3


def test_what_ended_makes_room_again() -> None:
    lanes = Lanes(100, 1)
    fill(lanes, *candidates("a", 1))
    assert lanes.full_endpoints(["first"]) == ["a"]
    assert chosen(lanes, *candidates("a", 1)) == []

    lanes.leave("first", "a", "org_a")

    assert lanes.full_endpoints(["first"]) == []
    assert chosen(lanes, *candidates("a", 1)) == ["a-0"]


def test_one_organization_leaves_a_quarter_to_the_others() -> None:
    lanes = Lanes(8, 1)
    fill(lanes, *(one for name in "abcdefghij" for one in candidates(name, 1)))

    assert len(chosen(lanes, *(one for name in "xyz" for one in candidates(name, 1, "b")))) == 2


def test_retries_do_not_take_the_room_of_first_attempts() -> None:
    lanes = Lanes(4, 4)
    fill(lanes, *candidates("a", 9), are_retries=True)

    assert not lanes.is_open("retry") or chosen(lanes, *candidates("a", 9), are_retries=True) == []
    assert chosen(lanes, *candidates("b", 1)) == ["b-0"]
    assert len(chosen(lanes, *candidates("a", 9))) == 3


def test_endpoints_that_were_slow_have_a_lane_of_their_own() -> None:
    lanes = Lanes(4, 4)
    for name in ("a", "b", "c"):
        lanes.learn(name, SLOW_MS)
    fill(lanes, *(one for name in "abc" for one in candidates(name, 9)))

    assert lanes.first_lane_of("a") == "slow"
    assert len(chosen(lanes, *candidates("d", 9))) == 3


def test_an_endpoint_that_answers_quickly_again_is_slow_no_longer() -> None:
    lanes = Lanes(4, 4)
    lanes.learn("a", SLOW_MS)

    lanes.learn("a", SLOW_MS - 1)

    assert lanes.first_lane_of("a") == "first"
