"""Hostile agents in pods: the attacks that a sandbox on one machine withstands."""

from tests.hostile.test_endings import *  # noqa: F403 - the same tests
from tests.hostile.test_escapes import *  # noqa: F403
from tests.hostile.test_limits import *  # noqa: F403
from tests.hostile.test_output import *  # noqa: F403
from tests.hostile.test_shared_resources import *  # noqa: F403
from tests.hostile.test_trees import *  # noqa: F403
from tests.support.hostile_service import HostileService

# A pod has a network, which policies close: see test_hostile_pods.py.
del test_there_is_no_network  # noqa: F821 - imported above
# What comes back from a pod counts by its size, so such a file exceeds the limit first.
del test_a_sparse_file_of_ten_gigabytes_is_refused  # noqa: F821


def test_a_sparse_file_of_ten_gigabytes_exceeds_the_limit(hostile: HostileService) -> None:
    finished = hostile.shell("truncate -s 10G big")
    assert finished.outcome == "agent_failed"
    assert "in the workspace" in finished.message
