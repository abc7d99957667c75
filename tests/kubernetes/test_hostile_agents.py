"""Hostile agents in pods: the attacks that a sandbox on one machine withstands."""

from collections.abc import Iterator

import pytest

from tests.hostile.conftest import _migrated_stores, hostile  # noqa: F401 - fixtures
from tests.hostile.test_endings import *  # noqa: F403 - the same tests
from tests.hostile.test_escapes import *  # noqa: F403
from tests.hostile.test_limits import *  # noqa: F403
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.hostile_pods import hostile_pods
from tests.support.hostile_service import HostileService

# A pod has a network, which policies close: see test_hostile_pods.py.
del test_there_is_no_network  # noqa: F821 - imported above
# What comes back from a pod counts by its size, so such a file exceeds the limit first.
del test_a_sparse_file_of_ten_gigabytes_is_refused  # noqa: F821


@pytest.fixture(scope="module")
def attacked_service(cluster: Cluster) -> Iterator[HostileService]:
    with hostile_pods(cluster) as service:
        yield service


def test_a_sparse_file_of_ten_gigabytes_exceeds_the_limit(hostile: HostileService) -> None:  # noqa: F811
    finished = hostile.shell("truncate -s 10G big")
    assert finished.outcome == "agent_failed"
    assert "in the workspace" in finished.message
