"""Records about one vulnerability form one group."""

from agentjobs_dependencies.advisories.groups import group_advisories
from agentjobs_dependencies.advisories.model import Advisory
from agentjobs_dependencies.advisories.severity import UNKNOWN
from tests.support.recorded_advisories import about, recorded


def known_as(id: str, *aliases: str, summary: str = "", label: str | None = None) -> Advisory:
    return Advisory(id, "", (), aliases=aliases, summary=summary, label=label)


def test_records_of_two_databases_make_one_group() -> None:
    groups = group_advisories(about("PyPI", "pyyaml"))
    assert [(group.id, group.aliases) for group in groups] == [
        ("GHSA-6757-jp84-gxfx", ("CVE-2020-1747", "PYSEC-2020-96")),
        ("GHSA-8q59-q68h-6hv4", ("CVE-2020-14343", "PYSEC-2021-142")),
    ]
    assert [member.id for member in groups[0].members] == ["GHSA-6757-jp84-gxfx", "PYSEC-2020-96"]


def test_a_third_record_connects_two_that_share_no_name() -> None:
    first, second = known_as("A-1", "CVE-1"), known_as("C-1", "CVE-2")
    between = known_as("B-1", "CVE-1", "CVE-2")
    assert [g.id for g in group_advisories([first, second])] == ["A-1", "C-1"]
    for order in ([first, second, between], [between, second, first]):
        (group,) = group_advisories(order)
        assert (group.id, group.aliases) == ("A-1", ("B-1", "C-1", "CVE-1", "CVE-2"))
    (group,) = group_advisories([second, first], [between])
    assert [member.id for member in group.members] == ["A-1", "C-1"]


def test_an_alias_may_be_the_id_of_another() -> None:
    assert len(group_advisories([known_as("A-1"), known_as("B-1", "A-1")])) == 1


def test_a_relative_contributes_severity_and_summary_but_is_not_a_member() -> None:
    member = known_as("PYSEC-1", "CVE-1")
    relative = known_as("GHSA-1", "CVE-1", summary="Leaks", label="HIGH")
    (group,) = group_advisories([member], [relative, member, known_as("GHSA-2", label="LOW")])
    assert (group.id, group.members) == ("PYSEC-1", (member,))
    assert (group.severity.level, group.severity.source) == ("high", "label of GHSA-1")
    assert (group.summary, group.aliases) == ("Leaks", ("CVE-1", "GHSA-1"))


def test_a_group_without_severity_is_unknown() -> None:
    (group,) = group_advisories([recorded("PYSEC-2023-74")])
    assert group.severity == UNKNOWN


def test_the_same_record_twice_is_one_member() -> None:
    (group,) = group_advisories([known_as("A-1"), known_as("A-1")])
    assert len(group.members) == 1
    assert group_advisories([]) == []
