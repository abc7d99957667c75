"""DNS rebinding: a name server that changes its answers does not lead to internal addresses."""

import subprocess

import pytest

from tests.support.rebinding import INTERNAL, PUBLIC, WAYS, run_rebinding

GUARDED = sorted(WAYS.keys() - {"naive"})


@pytest.fixture(scope="module")
def arrived() -> dict[str, dict[str, int]]:
    try:
        subprocess.run(["unshare", "--map-root-user", "--net", "--mount", "true"], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine does not allow a network of one's own")
    return run_rebinding()


@pytest.mark.parametrize("way", GUARDED)
def test_only_the_address_that_was_checked_is_dialled(
    arrived: dict[str, dict[str, int]], way: str
) -> None:
    assert set(arrived[way]) == {PUBLIC}


def test_the_name_server_misleads_a_client_that_resolves_twice(
    arrived: dict[str, dict[str, int]],
) -> None:
    assert set(arrived["naive"]) & set(INTERNAL)
