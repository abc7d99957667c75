"""A primary and a standby that confirms every commit, so that a failover loses nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.postgres import PostgresCluster


class ReplicatedPostgres:
    def __init__(self, template: Path, database: str) -> None:
        """`template` are the files of a server that has `database`."""
        self.database = database
        self.primary = PostgresCluster(template=template)
        self.primary.start()
        self.standby = PostgresCluster(self.primary)
        self.standby.start()
        self.primary.stop()
        self.primary.start(synchronous_standby_names="*", synchronous_commit="on")

    def url(self, options: str = "") -> str:
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in (self.primary, self.standby))
        return f"postgresql://agentjobs@{hosts}/{self.database}{options}"

    def fail_over(self) -> None:
        self.primary.kill()
        self.standby.promote()

    def remove(self) -> None:
        for server in (self.standby, self.primary):
            server.remove()


@contextmanager
def replicated_postgres(template: Path, database: str) -> Iterator[ReplicatedPostgres]:
    servers = ReplicatedPostgres(template, database)
    try:
        yield servers
    finally:
        servers.remove()
