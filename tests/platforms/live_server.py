"""A real Gitea or Forgejo on loopback, and what people do there through its API."""

import base64
import contextlib
import os
import secrets
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from tests.support.forge_servers.authority import authorities, issue_certificate
from tests.support.git_commands import git_output
from tests.support.service import wait_until

ADMIN = "root-admin"
PASSWORD = "correct-Horse-7-battery"
# What docs/platforms.md asks for.
SCOPES = ("write:repository", "write:issue", "read:user", "read:organization")
_CONFIGURATION = """
APP_NAME = agentjobs tests
RUN_MODE = prod
WORK_PATH = {work}

[server]
PROTOCOL = https
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = https://127.0.0.1:{port}/
CERT_FILE = {work}/certificate.pem
KEY_FILE = {work}/key.pem
STATIC_ROOT_PATH = {source}
DISABLE_SSH = true
OFFLINE_MODE = true
LFS_START_SERVER = false

[database]
DB_TYPE = sqlite3
PATH = {work}/data.db

[security]
INSTALL_LOCK = true
SECRET_KEY = {secret}
ALLOWED_HOST_LIST = loopback
PASSWORD_HASH_ALGO = pbkdf2$1$50

[repository]
ROOT = {work}/repositories

# The name of the setting above before Gitea 1.27.
[webhook]
ALLOWED_HOST_LIST = loopback
SKIP_TLS_VERIFY = true

[cron]
ENABLED = false

[actions]
ENABLED = false

[indexer]
ISSUE_INDEXER_TYPE = db

[mailer]
ENABLED = false

[log]
MODE = console
LEVEL = Warn
"""


@dataclass
class Person:
    """An account with a token for everything; `api` acts as this person."""

    login: str
    token: str
    api: httpx.Client


@dataclass
class LiveServer:
    """`build` has the program and its source, whose templates it reads."""

    program: Path
    source: Path
    work: Path
    port: int
    authorities: Path
    people: dict[str, Person] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def admin(self) -> httpx.Client:
        return self.people[ADMIN].api

    @property
    def version(self) -> str:
        return str(call(self.admin, "GET", "/version")["version"])

    @property
    def log(self) -> str:
        return (self.work / "log.txt").read_text()

    def person(self, login: str) -> Person:
        """The account of this name, which is created when it is first needed."""
        if login not in self.people:
            body = {
                "username": login,
                "email": f"{login}@example.com",
                "password": PASSWORD,
                "must_change_password": False,
            }
            call(self.admin, "POST", "/admin/users", body)
            self.people[login] = self._person(login, self.new_token(login, ("all",)))
        return self.people[login]

    def new_token(self, login: str, scopes: tuple[str, ...] = SCOPES) -> str:
        body = {"name": secrets.token_hex(6), "scopes": list(scopes)}
        with self._client(
            f"Basic {base64.b64encode(f'{login}:{PASSWORD}'.encode()).decode()}"
        ) as api:
            return str(call(api, "POST", f"/users/{login}/tokens", body)["sha1"])

    def new_organization(self) -> str:
        name = f"forest-{secrets.token_hex(3)}"
        call(self.admin, "POST", "/orgs", {"username": name, "visibility": "private"})
        return name

    def add_owner(self, organization: str, login: str) -> None:
        self.person(login)
        teams = call(self.admin, "GET", f"/orgs/{organization}/teams")
        owners = next(team["id"] for team in teams if team["name"] == "Owners")
        call(self.admin, "PUT", f"/teams/{owners}/members/{login}")

    def change_owner(self, full_name: str, *owners: str) -> str:
        """Rename the organization of a repository; returns the repository's new name.

        A Forgejo whose API cannot do that moves the repository to a new organization of `owners`.
        """
        owner, _, name = full_name.partition("/")
        new_owner = f"{owner}-{secrets.token_hex(2)}"
        renamed = self.admin.post(f"/orgs/{owner}/rename", json={"new_name": new_owner})
        if renamed.status_code == HTTPStatus.NOT_FOUND:
            new_owner = self.new_organization()
            for login in owners:
                self.add_owner(new_owner, login)
            call(self.admin, "POST", f"/repos/{full_name}/transfer", {"new_owner": new_owner})
        else:
            assert renamed.is_success, renamed.text
        return f"{new_owner}/{name}"

    def new_team(self, organization: str, permission: str, *members: str) -> int:
        """A team with rights on code, issues and pull requests of all repositories."""
        units = ("repo.code", "repo.issues", "repo.pulls")
        body = {
            "name": f"team-{secrets.token_hex(3)}",
            "permission": permission,
            "includes_all_repositories": True,
            "units_map": dict.fromkeys(units, permission),
            "units": list(units),
        }
        team = int(call(self.admin, "POST", f"/orgs/{organization}/teams", body)["id"])
        for login in members:
            self.person(login)
            call(self.admin, "PUT", f"/teams/{team}/members/{login}")
        return team

    def new_repository(self, owner: str, name: str = "") -> dict[str, Any]:
        """An empty, private repository of an organization or a person."""
        body = {"name": name or f"shop-{secrets.token_hex(4)}", "private": True}
        if owner in self.people:
            repository = call(self.people[owner].api, "POST", "/user/repos", body)
        else:
            repository = call(self.admin, "POST", f"/orgs/{owner}/repos", body)
        return dict(repository)

    def push(self, git_dir: Path, full_name: str, *refspecs: str, login: str = ADMIN) -> None:
        """Push from a local repository as a person."""
        address = self.url.replace("https://", f"https://{login}:{self.people[login].token}@")
        trust = ("-c", f"http.sslCAInfo={self.authorities}")
        target = f"{address}/{full_name}.git"
        git_output(*trust, "push", "--quiet", "--force", target, *refspecs, cwd=git_dir)

    def _person(self, login: str, token: str) -> Person:
        return Person(login, token, self._client(f"token {token}"))

    def _client(self, authorization: str) -> httpx.Client:
        return httpx.Client(
            base_url=f"{self.url}/api/v1",
            headers={"Authorization": authorization},
            verify=ssl.create_default_context(cafile=self.authorities),
            timeout=60,
        )

    def run(self, *arguments: str) -> str:
        command = [str(self.program), *arguments, "--config", str(self.work / "app.ini")]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self.run("migrate")
        account = ("--username", ADMIN, "--password", PASSWORD, "--email", "root@example.com")
        self.run("admin", "user", "create", "--admin", *account, "--must-change-password=false")
        with (self.work / "log.txt").open("w") as log:
            process = subprocess.Popen(
                [str(self.program), "web", "--config", str(self.work / "app.ini")],
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_until(lambda: process.poll() is not None or self._is_up(), "the server to start")
            assert process.poll() is None, self.log
            self.people[ADMIN] = self._person(ADMIN, self.new_token(ADMIN, ("all",)))
            yield
        finally:
            for person in self.people.values():
                person.api.close()
            process.terminate()
            process.wait(60)

    def _is_up(self) -> bool:
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == 0

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.work),
            "USER": os.environ.get("USER", "root"),
            # The tests may run as root, as in a container.
            "GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT": "true",
            "FORGEJO_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT": "true",
        }


@contextlib.contextmanager
def running_server(build: Path, program: str, work: Path) -> Iterator[LiveServer]:
    server = LiveServer(build / program, build / "source", work, _free_port(), authorities(work))
    issue_certificate(work / "certificate.pem", work / "key.pem")
    (work / "app.ini").write_text(
        _CONFIGURATION.format(
            work=work, port=server.port, source=server.source, secret=secrets.token_hex(32)
        )
    )
    with server.running():
        yield server


def call(api: httpx.Client, method: str, path: str, body: object = None, **query: Any) -> Any:
    """The decoded response; fails for an error."""
    response = api.request(method, path, json=body, params=query or None)
    assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
    return response.json() if response.content else None


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
