"""PgBouncer in transaction mode, in front of the tests' PostgreSQL."""

import shutil
import signal
import subprocess
import time

from tests.support.postgres import PostgresCluster, as_owner, free_port, owned_directory

_START_SECONDS = 30
# A round robin over the server connections, so that state of a session is never found again.
_CONFIG = """
[databases]
* = host=127.0.0.1 port={postgres_port} user=agentjobs
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 200
server_round_robin = 1
"""


class PgBouncer:
    def __init__(self, cluster: PostgresCluster) -> None:
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        self.port = free_port()
        self._home = owned_directory("agentjobs-pgbouncer-")
        config = self._home / "pgbouncer.ini"
        config.write_text(_CONFIG.format(postgres_port=cluster.port, port=self.port))
        self._command = [*as_owner("--pdeathsig", "KILL"), program, str(config)]
        self.start()

    def start(self) -> None:
        """Also after a kill."""
        with (self._home / "log").open("w") as log:
            self._process = subprocess.Popen(self._command, stderr=log, cwd="/")
        self._wait_until_listening()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def url(self, database_url: str) -> str:
        """The URL of the same database through the pooler."""
        database = database_url.rpartition("/")[2]
        return f"postgresql://agentjobs@127.0.0.1:{self.port}/{database}"

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._home)

    def _wait_until_listening(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while "process up" not in (self._home / "log").read_text():
            assert self._process.poll() is None, (self._home / "log").read_text()
            assert time.monotonic() < deadline, "PgBouncer did not start"
            time.sleep(0.01)
