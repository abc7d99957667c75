"""Switches the enforcement of NetworkPolicies on the test cluster on and off."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.namespaces import CommandFailed
from tests.kubernetes.network_rules import REMOVAL
from tests.kubernetes.policy_plugin import RECORDS, SWITCH
from tests.support.paths import PROJECT

_LOOP = "network-policies"


@contextmanager
def enforced(cluster: Cluster) -> Iterator[None]:
    """New pods have their rules before they start, running ones a moment later."""
    switch_on(cluster)
    try:
        yield
    finally:
        switch_off(cluster)


def switch_on(cluster: Cluster) -> None:
    (cluster.run_directory / SWITCH).touch()
    cluster.namespaces.kill(_LOOP)
    command = f"cd {PROJECT} && exec {sys.executable} -S -m tests.kubernetes.policy_plugin"
    cluster.namespaces.start(_LOOP, "sh", "-c", f"{command} {cluster.run_directory} loop")


def switch_off(cluster: Cluster) -> None:
    (cluster.run_directory / SWITCH).unlink(missing_ok=True)
    cluster.namespaces.kill(_LOOP)
    for record in (cluster.run_directory / RECORDS).iterdir():
        # The pod may end meanwhile.
        with suppress(CommandFailed, FileNotFoundError):
            network = record.read_text()
            cluster.namespaces.run("nsenter", f"--net={network}", "nft", "-f", "-", text=REMOVAL)
