"""What a probe says about the cluster's network."""

import pytest

from agentjobs_kubernetes.network_probe import explain_probe

POD, SERVER = "10.0.0.2:8463", "10.96.0.1:443"
ADDRESSES = {POD: "another pod", SERVER: "the API server"}


@pytest.mark.parametrize(
    ("at_first", "later", "is_enforced", "message"),
    [
        (set(), set(), True, f"could not reach another pod ({POD}), the API server ({SERVER})"),
        ({SERVER}, {SERVER}, False, f"could reach the API server ({SERVER}), and so can agents"),
        ({POD, SERVER}, {POD}, False, f"could reach another pod ({POD}), and so can agents"),
        ({POD}, set(), False, f"in its first seconds, a probe could reach another pod ({POD})"),
    ],
)
def test_whatever_a_pod_can_reach_is_named(
    at_first: set[str], later: set[str], is_enforced: bool, message: str
) -> None:
    probe = explain_probe(ADDRESSES, at_first, later)
    assert probe.is_enforced is is_enforced
    assert message in probe.explanation
