"""Fixtures of all tests of pods on the in-memory cluster."""

import pytest

from agentjobs.sandbox.kubernetes import api_retries, cluster


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of these tests is back at once."""
    monkeypatch.setattr(api_retries, "_MIN_DELAY", 0.02)
    monkeypatch.setattr(cluster, "_DELETE_WAIT_SECONDS", 0.3)
