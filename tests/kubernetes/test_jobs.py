"""Jobs whose agents run in pods, on a real cluster."""

from tests.integration.service.test_pods import *  # noqa: F403 - the same tests

# That of conftest.py is used.
del kubeconfig  # noqa: F821 - imported above
