"""Hostile environments in pods: their setups and services, and agents inside of them.

Images are not here: the node unpacks those of pods.
"""

from tests.hostile.test_environments import *  # noqa: F403 - the same tests
from tests.hostile.test_services import *  # noqa: F403
from tests.hostile.test_setups import *  # noqa: F403
