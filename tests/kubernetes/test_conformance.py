"""What every sandbox guarantees, with pods of a real cluster."""

import pytest

from kubernetes.tests.integration.test_conformance import *  # noqa: F403 - the same tests

# That of conftest.py is used.
del kubeconfig  # noqa: F821 - imported above


@pytest.fixture(params=["kubernetes", "kubernetes-layers"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)
