from agentjobs.webhooks.concurrency import Candidate
from agentjobs.webhooks.fairness import Cursor, Look


def look(organization: str, *endpoints: str, was_cut: bool = False) -> Look:
    seen = Look(organization, was_cut=was_cut)
    for endpoint in endpoints:
        seen.endpoints[endpoint] = None
        seen.candidates.append(Candidate(f"dlv_{endpoint}", endpoint, organization))
    return seen


def test_when_all_were_served_the_next_turn_begins_anew() -> None:
    cursor = Cursor()

    cursor.move([look("org_a", "a", "b")], {"a", "b"}, was_cut=False)

    assert (cursor.after, cursor.places, cursor.is_in_the_middle) == ("", [], False)


def test_the_next_turn_begins_with_the_first_who_was_passed_over() -> None:
    cursor = Cursor()

    cursor.move([look("org_a", "a", "b", "c")], {"a"}, was_cut=False)
    assert cursor.places == ["org_a a"]

    cursor.move([look("org_a", "b", "c")], {"b"}, was_cut=False)
    assert cursor.places == ["org_a b"]


def test_after_the_last_endpoint_those_before_the_beginning_have_their_turn() -> None:
    cursor = Cursor()
    cursor.move([look("org_a", "a", "b")], {"a"}, was_cut=False)

    cursor.move([look("org_a", "b")], {"b"}, was_cut=False)

    assert cursor.places == []
    assert cursor.is_in_the_middle


def test_a_look_that_was_cut_goes_on_where_it_ended() -> None:
    cursor = Cursor()

    cursor.move([look("org_a", "a", "b", was_cut=True)], {"a", "b"}, was_cut=True)

    assert (cursor.after, cursor.places, cursor.is_in_the_middle) == ("org_a", ["org_a b"], True)


def test_what_is_looked_at_of_each_endpoint_shares_the_room() -> None:
    cursor = Cursor()
    assert cursor.share_of(64) == 64

    cursor.move([look("org_a", "a", "b"), look("org_b", "c", "d")], set(), was_cut=False)

    assert cursor.share_of(64) == 16
    assert cursor.share_of(1) == 1


def test_a_place_behind_which_nobody_waits_any_more_is_given_up() -> None:
    cursor = Cursor()
    cursor.move([look("org_a", "a", "b")], {"a"}, was_cut=False)

    cursor.move([], set(), was_cut=False)

    assert cursor.places == []
    assert cursor.is_in_the_middle


def test_an_organization_that_was_skipped_keeps_its_place() -> None:
    cursor = Cursor()
    cursor.move([look("org_a", "a", "b")], {"a"}, was_cut=False)

    cursor.move([], set(), was_cut=False, skipped={"org_a"})

    assert cursor.places == ["org_a a"]
