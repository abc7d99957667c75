"""The severity of vulnerabilities and its source."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_dependencies.advisories.model import Advisory, Rating
from agentjobs_dependencies.advisories.severity import (
    LEVELS,
    UNKNOWN,
    Severity,
    find_severity,
    is_at_least,
)
from tests.support.recorded_advisories import recorded

V4 = Rating("CVSS_V4", "CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:H/VI:H/VA:H/SC:N/SI:N/SA:N")  # 9.3
V3 = Rating("CVSS_V3", "CVSS:3.1/AV:N/AC:H/PR:N/UI:R/S:C/C:H/I:N/A:N")  # 6.1
V30 = Rating("CVSS_V3", "CVSS:3.0/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H")  # 7.5
V2 = Rating("CVSS_V2", "AV:N/AC:L/Au:N/C:N/I:N/A:P")  # 5.0
NONE = Rating("CVSS_V3", "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:N")  # 0.0
BROKEN = Rating("CVSS_V4", "CVSS:4.0/AV:N")


def make_advisory(id: str, *ratings: Rating, label: str | None = None) -> Advisory:
    return Advisory(id, "", (), ratings=ratings, label=label)


@pytest.mark.parametrize(
    ("own", "relatives", "expected"),
    [
        (make_advisory("A", V2, V3, V4, label="LOW"), [], ("critical", 9.3, "CVSS 4.0 of A")),
        (make_advisory("A", V2, V3, BROKEN, label="LOW"), [], ("medium", 6.1, "CVSS 3.1 of A")),
        (make_advisory("A", V3, V30), [], ("high", 7.5, "CVSS 3.0 of A")),
        (
            make_advisory("A", V2, BROKEN, label="MODERATE"),
            [make_advisory("B", V4)],
            ("medium", None, "label of A"),
        ),
        (make_advisory("A", label="Important"), [], ("high", None, "label of A")),
        (make_advisory("A", NONE), [], ("unknown", None, "no database rates it")),
        (
            make_advisory("A", V2),
            [make_advisory("B", V3), make_advisory("C", V4)],
            ("critical", 9.3, "CVSS 4.0 of C"),
        ),
        (
            make_advisory("A", V2),
            [make_advisory("B", V3, label="LOW")],
            ("medium", 6.1, "CVSS 3.1 of B"),
        ),
        (
            make_advisory("A"),
            [make_advisory("B", V3), make_advisory("C", V30)],
            ("high", 7.5, "CVSS 3.0 of C"),
        ),
        (
            make_advisory("A"),
            [make_advisory("B", label="low"), make_advisory("C", label="HIGH")],
            ("high", None, "label of C"),
        ),
        (
            make_advisory("A", V2),
            [make_advisory("A", V4), make_advisory("B", V2)],
            ("medium", 5.0, "CVSS 2.0 of A"),
        ),
        (
            make_advisory("A", label="whatever"),
            [make_advisory("B", V2)],
            ("medium", 5.0, "CVSS 2.0 of B"),
        ),
        (make_advisory("A", BROKEN, Rating("CVSS_V3", "7.5")), [make_advisory("B")], UNKNOWN),
    ],
)
def test_the_severity_with_the_highest_precedence_is_used(
    own: Advisory, relatives: list[Advisory], expected: tuple[str, float | None, str] | Severity
) -> None:
    severity = find_severity(own, relatives)
    assert expected in (severity, (severity.level, severity.score, severity.source))


def test_the_python_databases_record_of_requests_is_rated_through_its_alias() -> None:
    python, github = recorded("PYSEC-2023-74"), recorded("GHSA-j8r2-6x86-q33q")
    assert find_severity(python) == UNKNOWN
    vector = "CVSS:3.1/AV:N/AC:H/PR:N/UI:R/S:C/C:H/I:N/A:N"
    rated = Severity("medium", 6.1, "CVSS 3.1 of GHSA-j8r2-6x86-q33q", vector)
    assert find_severity(python, [python, github]) == rated


def test_a_level_meets_thresholds_up_to_itself_and_unknown_those_of_the_setting() -> None:
    reached = {level: [t for t in LEVELS[1:] if is_at_least(level, t, "low")] for level in LEVELS}
    assert reached == {
        "unknown": ["low"],
        "low": ["low"],
        "medium": ["low", "medium"],
        "high": ["low", "medium", "high"],
        "critical": ["low", "medium", "high", "critical"],
    }
    assert not is_at_least("unknown", "low", "none")


@given(
    st.sampled_from([V4, V3, V2]),
    st.text("CVSS:4.0/AVNLHPRUIX ", max_size=6),
    st.integers(0, 60),
)
def test_an_invalid_vector_is_ignored(rating: Rating, junk: str, position: int) -> None:
    vector = rating.vector[:position] + junk + rating.vector[position + 2 :]
    assert find_severity(make_advisory("A", Rating(rating.kind, vector))).level in LEVELS
