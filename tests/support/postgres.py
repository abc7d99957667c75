"""A private PostgreSQL cluster for the tests, deleted at the end."""

import contextlib
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_START_SECONDS = 60
_QUICK_BUT_UNSAFE = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "16MB",
    "max_connections": "200",
    "autovacuum": "off",
}


_MAX_USES = 50
_PSQL_OPTIONS = ("-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1")
_END = "end of the output"
# Changes with every DDL statement, and with nothing else.
_SCHEMA = (
    "SELECT (SELECT version_num FROM alembic_version),"
    " (SELECT (count(*), max(xmin::text::bigint)) FROM pg_class WHERE oid >= 16384),"
    " (SELECT (count(*), max(xmin::text::bigint)) FROM pg_attribute WHERE attrelid >= 16384)"
)
EMPTY = """
DO $$
DECLARE name text;
BEGIN
  PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid();
  SET LOCAL session_replication_role = replica;
  FOR name IN SELECT relname FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
      AND relname <> 'alembic_version' AND pg_relation_size(oid) > 0
  LOOP
    EXECUTE format('DELETE FROM %I', name);
  END LOOP;
END $$
"""


class PostgresCluster:
    """Listens on loopback; runs as an ordinary user even if the tests run as root."""

    def __init__(
        self, primary: "PostgresCluster | None" = None, template: Path | None = None
    ) -> None:
        """A standby, if it is given a `primary`, which must be running.

        Files saved by `save` are a template.
        """
        self.port = free_port()
        self._home = owned_directory("agentjobs-pg-")
        # A standby has the databases of its primary.
        self._databases: int = 0 if primary is None else primary._databases
        self._server: subprocess.Popen[str] | None = None
        if template is not None:
            _copy(template, self._data)
            return
        if primary is not None:
            self._run("pg_basebackup", "-D", str(self._data), "-R", "-c", "fast", "--no-sync",
                      "-d", f"host=127.0.0.1 port={primary.port} user=agentjobs")  # fmt: skip
            return
        self._run("initdb", "-D", str(self._data), "-U", "agentjobs", "-A", "trust", "-E", "UTF8",
                  "--locale", "C.UTF-8", "--no-sync", "--no-instructions")  # fmt: skip

    @property
    def pid(self) -> int:
        assert self._server is not None
        return self._server.pid

    @property
    def is_running(self) -> bool:
        return self._server is not None and self._server.poll() is None

    @property
    def _data(self) -> Path:
        return self._home / "data"

    def start(self, **settings: str) -> None:
        settings = {
            **_QUICK_BUT_UNSAFE,
            **settings,
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self._home),
        }
        options = [part for name in settings for part in ("-c", f"{name}={settings[name]}")]
        self._server = subprocess.Popen(
            # Dies with the thread that starts it, so with the tests, however they end.
            [
                *as_owner("--pdeathsig", "QUIT"),
                _program("postgres"),
                "-D",
                str(self._data),
                *options,
            ],
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        _wait_until_ready(self._server)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """No process of the server runs: connections are open, and nothing answers."""
        frozen: list[int] = []
        try:
            # The first one starts the others.
            for pid in (self.pid, *_children(self.pid)):
                os.kill(pid, signal.SIGSTOP)
                frozen.append(pid)
            yield
        finally:
            for pid in reversed(frozen):
                os.kill(pid, signal.SIGCONT)

    def stop(self) -> None:
        """Close all connections, but keep committed data."""
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)
            self._server.wait()

    def kill(self) -> None:
        """Like the loss of the machine: nothing more is written or sent."""
        assert self._server is not None
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait()

    def promote(self) -> None:
        """Make a standby the primary; returns when it accepts writes."""
        self._run("pg_ctl", "promote", "-w", "-s", "-D", str(self._data))

    def save(self, path: Path) -> None:
        """Stop the server and keep only its files, as a template."""
        self.stop()
        _copy(self._data, path)
        shutil.rmtree(self._home)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._home)

    def url(self, database: str) -> str:
        return f"postgresql://agentjobs@127.0.0.1:{self.port}/{database}"

    def create_database(self, template: str = "template0", name: str = "") -> str:
        self._databases += 1
        name = name or f"test_{self._databases}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop_database(self, name: str) -> None:
        self.sql(f"DROP DATABASE {name} WITH (FORCE)")

    def dump(self, database: str) -> str:
        return self._run("pg_dump", self.url(database))

    def sql(self, statement: str, database: str = "postgres") -> str:
        return self._run("psql", *_PSQL_OPTIONS, "-c", statement, self.url(database))

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [*as_owner(), _program(program), *arguments],
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
        )
        assert done.returncode == 0, f"{program} failed: {done.stderr}"
        return done.stdout


def _children(pid: int) -> Iterator[int]:
    """Evaluated when the process itself is frozen."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    yield from map(int, children.read_text().split())


def server_command(disk: Path, sockets: Path) -> list[str]:
    """Creates a cluster on the disk and runs its server, which listens in `sockets` only."""
    initialize = [_program("initdb"), "-D", f"{disk}/data", "-U", "agentjobs", "-A", "trust"]
    settings = {**_QUICK_BUT_UNSAFE, "listen_addresses": "", "unix_socket_directories": sockets}
    options = [part for name in settings for part in ("-c", f"{name}={settings[name]}")]
    serve = [_program("postgres"), "-D", f"{disk}/data", *options]
    script = f"{shlex.join(initialize)} --no-sync --no-instructions && exec {shlex.join(serve)}"
    return [*as_owner(), "sh", "-c", script]


class FreshDatabases:
    """Empty databases with the current schema, one per test, emptied and reused.

    Emptying a database costs a fraction of creating and dropping one, above all over a connection
    that has emptied it before. A database whose schema a test changed is dropped.
    """

    def __init__(self, cluster: PostgresCluster, template: str) -> None:
        self._cluster = cluster
        self._template = template
        self._schema = cluster.sql(_SCHEMA, template)
        self._free: list[str] = []
        self._uses: Counter[str] = Counter()
        self._connections: dict[str, Connection] = {}

    def take(self) -> str:
        if self._free:
            return self._free.pop()
        return self._cluster.create_database(self._template)

    def give_back(self, name: str) -> None:
        self._uses[name] += 1
        # Deleted rows stay in the files, so a database is not used for ever.
        if self._empty(name) == self._schema and self._uses[name] < _MAX_USES:
            self._free.append(name)
        else:
            self._connections.pop(name).close()
            self._cluster.drop_database(name)

    def close(self) -> None:
        while self._connections:
            self._connections.popitem()[1].close()

    def _empty(self, name: str) -> str:
        """Returns the schema."""
        statement = f"{EMPTY}; {_SCHEMA};"
        if name in self._connections:
            with contextlib.suppress(EOFError, BrokenPipeError):
                return self._connections[name].run(statement)
            # The test stopped the server or closed all connections.
            self._connections.pop(name).close()
        self._connections[name] = Connection(self._cluster.url(name))
        return self._connections[name].run(statement)


class Connection:
    """A psql that stays connected."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [_program("psql"), *_PSQL_OPTIONS, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, statement: str) -> str:
        """The output of the statement; raises EOFError or BrokenPipeError if psql has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{statement}\n\\echo {_END}\n")
        self._process.stdin.flush()
        output = ""
        while (line := self._process.stdout.readline()) != f"{_END}\n":
            if not line:
                raise EOFError
            output += line
        return output

    def close(self) -> None:
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


def _copy(source: Path, target: Path) -> None:
    # Keeps the owners of the files, unlike shutil.
    subprocess.run(["cp", "--archive", source, target], check=True)


def owned_directory(prefix: str) -> Path:
    """A new directory of the user that the servers run as."""
    # Where pytest keeps the files of tests; a disk would cost the server CPU time too.
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
    if _owner():
        shutil.chown(path, _owner(), -1)
    return path


def _program(name: str) -> str:
    versions = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    newest = max(versions, key=lambda path: int(re.sub(r"\D", "", path.parts[-3])), default=None)
    program = str(newest) if newest else shutil.which(name)
    assert program, f"PostgreSQL's {name} is not installed: apt-get install postgresql"
    return program


def installation() -> Path:
    """The directory that contains bin/ and lib/."""
    return Path(_program("initdb")).resolve().parent.parent


def _owner() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def as_owner(*options: str) -> list[str]:
    owner = _owner()
    identity = ["--reuid", owner, "--regid", _group(owner), "--clear-groups"] if owner else []
    return ["setpriv", *identity, *options, "--"]


def _group(user: str) -> str:
    return str(pwd.getpwnam(user).pw_gid)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(server: subprocess.Popen[str]) -> None:
    ready = threading.Event()
    output: list[str] = []

    def follow() -> None:
        assert server.stderr is not None
        with server.stderr:
            for line in server.stderr:
                output.append(line)
                # A standby is ready to accept read-only connections.
                if re.search(r"ready to accept( read-only)? connections", line):
                    ready.set()

    threading.Thread(target=follow, daemon=True).start()
    assert ready.wait(_START_SECONDS), f"PostgreSQL did not start: {''.join(output)}"
