"""Fixtures of all tests of pods on the in-memory cluster."""

import pytest

from agentjobs_kubernetes import api_retries


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of these tests is back at once."""
    monkeypatch.setattr(api_retries, "_MIN_DELAY", 0.02)
