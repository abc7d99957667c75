import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from tests.support.attacked_sandbox import AttackedSandbox
from tests.support.hostile_service import HostileService, hostile_service
from tests.support.sandbox import unused_uid_base
from tests.support.service import Service


@pytest.fixture(scope="session", autouse=True)
def _migrated_stores(sqlite_template: Path) -> None:
    Service.sqlite_template = sqlite_template


@pytest.fixture(scope="module")
def hostile(attacked_service: HostileService) -> Iterator[HostileService]:
    yield attacked_service
    attacked_service.check_ordinary_job()


@pytest.fixture(scope="session")
def attacked_sandbox() -> AttackedSandbox:
    """This fixture and the next one are others in tests/kubernetes."""
    return AttackedSandbox()


@pytest.fixture
def sandbox() -> BubblewrapSandbox:
    return BubblewrapSandbox(unused_uid_base())


@pytest.fixture(scope="session")
def attacked_service(attacked_sandbox: AttackedSandbox) -> Iterator[HostileService]:
    """One `agentjobs up` for all hostile agents, so that each test detects earlier damage."""
    # On a disk: where workspaces live in memory, their files count as memory of the agent.
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as directory,
        hostile_service(Path(directory), attacked_sandbox) as opened,
    ):
        yield opened
