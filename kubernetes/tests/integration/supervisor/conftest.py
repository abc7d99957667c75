import pytest

from tests.support.supervisor import running_supervisor


@pytest.fixture
def supervisor(tmp_path):
    with running_supervisor(tmp_path) as running:
        yield running


@pytest.fixture
def client(supervisor):
    connected = supervisor.connect()
    yield connected
    connected.close()
