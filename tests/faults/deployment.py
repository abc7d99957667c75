"""The parts beside the processes: databases, pooler, platform and receiver, prepared once.

Connecting a repository and migrating take longer than a run, so that runs start from copies.
"""

import asyncio
import contextlib
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentjobs.store.opening import open_database
from tests.faults import history
from tests.faults.platform import SHOP, HostedPlatform
from tests.faults.proxy import TcpProxy
from tests.faults.schedule import Schedule, Topology
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PostgresCluster, free_port
from tests.support.receiver import Received, receiver
from tests.support.service import Service, sample_repository
from tests.support.webhook_service import SHARED, add_endpoint

REPO = "acme/shop"
ROLES = ("serve-1", "serve-2", "worker-1", "worker-2", "up")


@dataclass
class WebhookReceiver:
    """Fails with `status`, or hangs until `answers` is set."""

    received: list[Received] = field(default_factory=list)
    status: int = 204
    answers: threading.Event = field(default_factory=threading.Event)

    def respond(self, request: Received) -> int:
        self.received.append(request)
        self.answers.wait(5)
        return self.status

    def restore(self) -> None:
        self.status = 204
        self.answers.set()


@dataclass
class Deployment:
    """What the processes of one run share. `url` is for the harness itself."""

    directory: Path
    url: str
    key: str
    receiver: WebhookReceiver
    environment: dict[str, str]
    url_of: Callable[[str], str]
    # Between the workers and the service, also for git.
    service_proxy: TcpProxy | None = None
    # Where the processes load the service from, if that is not the source of the tests.
    source: Path | None = None
    database: "DatabaseServer | None" = None
    database_name: str = ""
    proxy: TcpProxy | None = None
    platform: HostedPlatform | None = None
    # Copied to `url` once its directory exists, on SQLite.
    database_file: Path | None = None
    # Whether the history names the process that made a change.
    knows_writers: bool = False

    @property
    def repositories(self) -> Path:
        return self.directory / "repositories"

    def save_database(self) -> None:
        """Beside the other files of the run, where a file of SQLite already is."""
        if self.database is not None:
            dump = self.database.primary.dump(self.database_name)
            (self.directory / "database.sql").write_text(dump)


class DatabaseServer:
    """PostgreSQL, during a run possibly with a standby and a pooler."""

    def __init__(self, template: Path | None) -> None:
        self.primary = PostgresCluster(template=template)
        self.standby: PostgresCluster | None = None
        self.pooler: PgBouncer | None = None
        self._is_away = False
        self._frozen = contextlib.ExitStack()
        self._start()
        for role in ROLES:
            self.primary.sql(f'CREATE ROLE "{role}" SUPERUSER LOGIN')

    def kill(self) -> None:
        if not self._is_away:
            self._is_away = True
            self.thaw()
            self.primary.kill()

    def restore(self) -> None:
        if self._is_away:
            self._start()
            self._is_away = False

    def freeze(self) -> None:
        """It keeps all connections, and answers nothing."""
        self._frozen.enter_context(self.primary.frozen())

    def thaw(self) -> None:
        self._frozen.close()

    def add_standby(self) -> None:
        """It confirms every commit, so that a promotion loses nothing."""
        self.standby = PostgresCluster(self.primary)
        self.standby.start()
        self.primary.stop()
        self.primary.start(synchronous_standby_names="*", synchronous_commit="on")

    def promote(self) -> None:
        if self.standby is None:
            return
        self.primary.kill()
        self.standby.promote()
        former, self.primary, self.standby = self.primary, self.standby, None
        former.remove()

    def remove_standby(self) -> None:
        if self.standby is not None:
            self.standby.remove()
            self.standby = None
        self.primary.stop()
        self._start()

    def add_pooler(self) -> PgBouncer:
        self.pooler = PgBouncer(self.primary)
        return self.pooler

    def kill_pooler(self) -> None:
        if self.pooler is not None:
            self.pooler.kill()

    def restore_pooler(self) -> None:
        if self.pooler is not None:
            self.pooler.start()

    def remove(self) -> None:
        self.primary.remove()

    def _start(self) -> None:
        # A transaction that was committed must outlast a killed server.
        self.primary.start(synchronous_commit="on")


@dataclass(frozen=True)
class _Template:
    directory: Path
    database: str
    key: str
    platform: HostedPlatform | None


class Engine:
    """Deployments on SQLite or PostgreSQL, one after the other.

    `migrated` is a file of SQLite with the current schema, or the files of a server that has a
    database `template` with it; without them, a run begins with all migrations.
    """

    def __init__(
        self, name: str, migrated: Path | None = None, template: str = "template0"
    ) -> None:
        self.name = name
        self._migrated = migrated
        self._template_name = template
        self._directory = Path(tempfile.mkdtemp(prefix="agentjobs-faults-"))
        self._stack = contextlib.ExitStack()
        self._stack.callback(shutil.rmtree, self._directory)
        self._server: DatabaseServer | None = None
        if name == "postgresql":
            self._server = DatabaseServer(migrated)
            self._stack.callback(self._server.remove)
        self._platform_proxy, self._service_proxy = TcpProxy(), TcpProxy()
        self._stack.callback(self._platform_proxy.close)
        self._stack.callback(self._service_proxy.close)
        self._receiver = WebhookReceiver()
        self._receiver.restore()
        self._receiver_url = self._stack.enter_context(receiver(self._respond)).url
        self._templates: dict[bool, _Template] = {}

    def close(self) -> None:
        self._stack.close()

    def _respond(self, request: Received) -> int:
        return self._receiver.respond(request)

    @contextlib.contextmanager
    def deploy(
        self, schedule: Schedule, directory: Path, source: Path | None = None
    ) -> Iterator[Deployment]:
        template = self._template(has_platform=schedule.topology is Topology.PLATFORM)
        shutil.copytree(template.directory / "repositories", directory / "repositories")
        self._receiver = WebhookReceiver()
        self._receiver.restore()
        with contextlib.ExitStack() as stack:
            environment = dict(SHARED)
            platform = None
            if template.platform is not None:
                platform = HostedPlatform.create(directory, self._platform_proxy, template.platform)
                stack.enter_context(platform.running())
                environment |= _environment_of(platform)
            deployment = Deployment(
                directory,
                "",
                template.key,
                self._receiver,
                environment,
                str,
                self._service_proxy,
                source,
                platform=platform,
            )
            if self._server is None:
                self._use_file(template, schedule, deployment)
            else:
                stack.enter_context(
                    self._using_server(self._server, template, schedule, deployment)
                )
            try:
                yield deployment
            finally:
                self._receiver.restore()
                self._service_proxy.restore()

    def _use_file(self, template: _Template, schedule: Schedule, deployment: Deployment) -> None:
        # Beside the files of the only process, the database shares its disk.
        is_alone = len(schedule.processes) == 1
        path = deployment.directory / (schedule.processes[0] if is_alone else "store")
        deployment.url = f"sqlite:///{path / 'agentjobs.db'}"
        deployment.url_of = lambda _: deployment.url
        deployment.database_file = Path(template.database)

    @contextlib.contextmanager
    def _using_server(
        self,
        server: DatabaseServer,
        template: _Template,
        schedule: Schedule,
        deployment: Deployment,
    ) -> Iterator[None]:
        topology = schedule.topology
        name = server.primary.create_database(template.database)
        deployment.database, deployment.database_name = server, name
        deployment.knows_writers = topology is not Topology.POOLED
        if topology is Topology.REPLICATED:
            server.add_standby()
            assert server.standby is not None
            ports = (server.primary.port, server.standby.port)
            hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
            options = "?target_session_attrs=read-write"
        else:
            port = server.primary.port
            if topology is Topology.POOLED:
                port = server.add_pooler().port
                direct_url = f"postgresql://agentjobs@127.0.0.1:{server.primary.port}/{name}"
                deployment.environment["AGENTJOBS_DATABASE_DIRECT_URL"] = direct_url
            deployment.proxy = TcpProxy(port)
            hosts, options = f"127.0.0.1:{deployment.proxy.port}", ""
        deployment.url_of = lambda process: f"postgresql://{process}@{hosts}/{name}{options}"
        deployment.url = deployment.url_of("agentjobs")
        try:
            yield
        finally:
            if deployment.proxy is not None:
                deployment.proxy.close()
            server.thaw()
            if server.pooler is not None:
                server.pooler.remove()
                server.pooler = None
            server.restore()
            server.primary.drop_database(name)
            if topology is Topology.REPLICATED:
                server.remove_standby()

    def _template(self, *, has_platform: bool) -> _Template:
        if has_platform not in self._templates:
            self._templates[has_platform] = self._prepare(has_platform=has_platform)
        return self._templates[has_platform]

    def _prepare(self, *, has_platform: bool) -> _Template:
        """Connect the repositories and add the endpoint with the real command line."""
        directory = self._directory / ("with-platform" if has_platform else "local")
        (directory / "repositories").mkdir(parents=True)
        database, url = self._new_database(directory)
        environment = {
            **SHARED,
            "AGENTJOBS_DATABASE_URL": url,
            "AGENTJOBS_REPOSITORIES_DIR": str(directory / "repositories"),
        }
        with contextlib.ExitStack() as stack:
            platform = None
            if has_platform:
                platform = HostedPlatform.create(directory, self._platform_proxy)
                stack.enter_context(platform.running())
                environment |= _environment_of(platform)
            service = Service(directory / "data", environment, ("up",), port=free_port()).start()
            key = service.key()
            add_endpoint(service, self._receiver_url)
            service.connect(sample_repository(directory / "source"), REPO)
            service.client(key).wait_ready(REPO)
            if platform is not None:
                _connect(service, platform)
                service.client(key).wait_ready(SHOP)
            service.stop()
        self._add_history(database, url)
        return _Template(directory, database, key, platform)

    def _new_database(self, directory: Path) -> tuple[str, str]:
        """Its name, or the path of its file, and its URL."""
        if self._server is None:
            path = str(directory / "agentjobs.db")
            name, url = path, f"sqlite:///{path}"
            if self._migrated is not None:
                shutil.copy(self._migrated, path)
        else:
            name = self._server.primary.create_database(self._template_name)
            url = self._server.primary.url(name)
        asyncio.run(_migrate(url))
        return name, url

    def _add_history(self, database: str, url: str) -> None:
        if self._server is not None:
            for statement in history.statements("postgresql"):
                self._server.primary.sql(statement, database)
            return
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            for statement in history.statements("sqlite"):
                connection.execute(statement)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.commit()


def _environment_of(platform: HostedPlatform) -> dict[str, str]:
    return {
        "AGENTJOBS_CA_FILE": str(platform.server.authorities),
        "AGENTJOBS_EGRESS_ALLOW": "127.0.0.0/8",
    }


def _connect(service: Service, platform: HostedPlatform) -> None:
    server = platform.server
    service.admin("platforms", "add", server.platform, "--url", server.url, typed=server.token)
    service.admin("platforms", "connect", server.platform, SHOP)


async def _migrate(url: str) -> None:
    db = await open_database(url, migrate=True)
    await db.close()
