"""The setup of webhook benchmarks: a receiver, and new stores of both engines."""

import asyncio
import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.cluster import durable_cluster
from bench.webhook_process import Ask, in_a_process
from bench.webhook_receiver import receiver
from bench.webhook_service import Place, make_place
from tests.support.postgres import PostgresCluster

STORES = ("sqlite", "postgresql")


class WebhookSetup:
    def __init__(self, directory: Path, cluster: PostgresCluster, receiver: Ask) -> None:
        self._directory = directory
        self._cluster = cluster
        self._made = 0
        self.receiver = receiver
        self.base_url = f"http://127.0.0.1:{receiver('port')}"

    def make(
        self,
        store: str,
        paths: Mapping[str, Sequence[str]],
        environment: Mapping[str, str] | None = None,
    ) -> Place:
        """A new store with these organizations and their endpoints at the receiver."""
        self._made += 1
        data_dir = self._directory / f"place-{self._made}"
        data_dir.mkdir(mode=0o700)
        place = Place(
            self._database_url(store, data_dir),
            str(data_dir),
            {name: [self.base_url + path for path in each] for name, each in paths.items()},
            environment or {},
        )
        asyncio.run(make_place(place))
        return place

    def _database_url(self, store: str, data_dir: Path) -> str:
        if store == "sqlite":
            return f"sqlite:///{data_dir}/agentjobs.db"
        return self._cluster.url(self._cluster.create_database())


@contextlib.contextmanager
def webhook_setup() -> Iterator[WebhookSetup]:
    with (
        tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory,
        durable_cluster() as cluster,
        in_a_process(receiver) as asked,
    ):
        yield WebhookSetup(Path(directory), cluster, asked)


def paths_of(organizations: int, endpoints: int) -> dict[str, list[str]]:
    return {
        f"org-{number}": [f"/{number}/{each}" for each in range(endpoints)]
        for number in range(organizations)
    }
