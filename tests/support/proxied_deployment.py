"""Two `serve` and a worker behind a reverse proxy, and what has to work through it."""

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.reverse_proxy import SERVICE_PORT, ReverseProxy, reverse_proxy
from tests.support.service import (
    PROGRAM,
    Api,
    Service,
    git,
    sample_repository,
    wait_until,
    worker_beside,
)

VISITOR = "127.0.0.2"
FORGED = "192.0.2.77"
MIB = 1024**2


@dataclass
class Deployment:
    proxy: ReverseProxy
    serves: list[Service]
    worker: Service
    key: str
    directory: Path

    @property
    def url(self) -> str:
        return self.proxy.url

    def client(self, **options: Any) -> httpx.Client:
        """As a visitor who claims another address."""
        headers = {"X-Forwarded-For": FORGED, **options.pop("headers", {})}
        transport = httpx.HTTPTransport(verify=self.proxy.trust, local_address=VISITOR)
        return httpx.Client(
            base_url=options.pop("base_url", self.url),
            transport=transport,
            headers=headers,
            timeout=70,
            **options,
        )


@contextmanager
def deployment(kind: str, path: str, directory: Path, database_url: str) -> Iterator[Deployment]:
    with reverse_proxy(kind, path, directory / "proxy") as proxy:
        environment = {
            "AGENTJOBS_DATABASE_URL": database_url,
            "AGENTJOBS_PUBLIC_URL": proxy.url,
            "AGENTJOBS_TRUSTED_PROXIES": "127.0.0.1",
            "AGENTJOBS_CA_FILE": str(proxy.ca_file),
            "AGENTJOBS_REPOSITORIES_DIR": str(directory / "repositories"),
        }
        (directory / "repositories").mkdir()
        services = [
            Service(
                directory / f"serve-{number}",
                environment,
                ("serve", "--host", host),
                port=SERVICE_PORT,
            )
            for number, host in enumerate(proxy.hosts)
        ]
        worker = worker_beside(services[0], directory / "worker", **environment)
        try:
            for service in (*services, worker):
                service.start()
            services[0].connect(sample_repository(directory / "source"), "acme/shop")
            key = services[0].key("--git-write")
            yield Deployment(proxy, services, worker, key, directory)
        finally:
            started = [each for each in (worker, *services) if each.process is not None]
            codes = [service.stop() for service in started]
        assert codes == [0, 0, 0], services[0].log()


def check_everything(deployed: Deployment) -> None:
    headers = {"Authorization": f"Bearer {deployed.key}"}
    with deployed.client(base_url=f"{deployed.url}/v1", headers=headers) as http:
        api = Api(http)
        api.wait_ready("acme/shop")
        check_job(deployed, api)
        check_streams(deployed, api)
        check_git(deployed)
        check_sizes(deployed)
        check_mcp(deployed)
        check_documents(deployed)
        check_dashboard(deployed)
        check_command_line(deployed)
        check_client_address(deployed)
        check_restart(deployed, api)


def check_job(deployed: Deployment, api: Api) -> None:
    """The worker fetches and pushes through the proxy."""
    job = api.finish("acme/shop", "edit")
    assert job["status"] == "completed", job
    assert job["pr_url"] == f"{deployed.url}/default/acme/shop/pulls/1"


def check_streams(deployed: Deployment, api: Api) -> None:
    """A line arrives while the agent runs, also over HTTP/2; a long poll ends with the job."""
    job_id = api.create("acme/shop", "sleepy")
    stream = api.http.stream("GET", f"/jobs/{job_id}/logs", headers={"Accept": "text/event-stream"})
    with stream as response:
        lines = response.iter_lines()
        assert any("asleep" in line for line in lines)
        check_http2_stream(deployed, job_id)
        assert api.job(job_id)["status"] == "running"
        poll = {"wait_seconds": "60", "wait_for": "final"}
        cancelled = api.http.post(f"/jobs/{job_id}/cancel", json={})
        assert cancelled.status_code == 202, cancelled.text
        assert api.http.get(f"/jobs/{job_id}", params=poll).json()["status"] == "cancelled"


def check_http2_stream(deployed: Deployment, job_id: str) -> None:
    """As browsers do it."""
    command = ["curl", "--silent", "--include", "--no-buffer", "--http2", "--max-time", "120"]
    command += ["--cacert", str(deployed.proxy.ca_file), "--header", "Accept: text/event-stream"]
    command += ["--header", f"Authorization: Bearer {deployed.key}"]
    address = f"{deployed.url}/v1/jobs/{job_id}/logs"
    with subprocess.Popen([*command, address], stdout=subprocess.PIPE, text=True) as curl:
        assert curl.stdout is not None
        status = curl.stdout.readline()
        is_streamed = any("asleep" in line for line in curl.stdout)
        curl.terminate()
    assert status.startswith("HTTP/2 200")
    assert is_streamed


def check_git(deployed: Deployment) -> None:
    """A push that is larger than the usual limit of a proxy."""
    address = f"{deployed.url}/git/default/acme/shop.git".replace("://", f"://key:{deployed.key}@")
    clone = deployed.directory / "clone"
    _git(deployed, "clone", "--quiet", address, str(clone))
    (clone / "large.bin").write_bytes(secrets.token_bytes(3 * MIB))
    git(clone, "add", "-A")
    git(clone, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "Large")
    _git(deployed, "-C", str(clone), "push", "--quiet", "origin", "main")
    remote = _git(deployed, "ls-remote", address, "refs/heads/main")
    assert remote.split()[0] == git(clone, "rev-parse", "HEAD").strip()


def _git(deployed: Deployment, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "GIT_SSL_CAINFO": str(deployed.proxy.ca_file)}
    # Uploads over HTTP/2 stall with libcurl before 8.2.
    command = ["git", "-c", "http.version=HTTP/1.1", *arguments]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


def check_sizes(deployed: Deployment) -> None:
    """Errors of the service arrive with their body; what is too large for it gets 413."""
    headers = {"Authorization": f"Bearer {deployed.key}", "Content-Type": "application/json"}
    with deployed.client() as http:
        job = http.post("/v1/jobs", content=b" " * (128 * 1024), headers=headers)
        assert (job.status_code, job.json()["error"]["code"]) == (413, "payload_too_large")
        # A body without a signature would not be read.
        headers["X-Hub-Signature-256"] = f"sha256={'0' * 64}"
        hook = http.post("/hooks/github/con_unknown", content=b" " * (4 * MIB), headers=headers)
        assert (hook.status_code, hook.json()["error"]["code"]) == (401, "unauthorized")
        large = b" " * (5 * MIB + 1)
        hook = http.post("/hooks/github/con_unknown", content=large, headers=headers)
        assert hook.status_code == 413, hook.text


def check_mcp(deployed: Deployment) -> None:
    headers = {
        "Authorization": f"Bearer {deployed.key}",
        "Accept": "application/json, text/event-stream",
    }
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    with deployed.client(headers=headers) as http:
        response = http.post("/mcp", json=initialize)
        assert response.status_code == 200, response.text
        assert "serverInfo" in response.text


def check_documents(deployed: Deployment) -> None:
    """Links in the API reference and the OpenAPI document lead through the proxy."""
    with deployed.client() as http:
        page = http.get("/v1/docs")
        style = page.text.partition('rel="stylesheet" href="')[2].partition('"')[0]
        assert http.get(httpx.URL(deployed.url).join(style)).status_code == 200
        assert f"AGENTJOBS_URL={deployed.url}/v1" in page.text
        server = http.get("/v1/openapi.json").json()["servers"][0]["url"]
        assert str(httpx.URL(deployed.url).join(server)) == f"{deployed.url}/v1"


def check_dashboard(deployed: Deployment) -> None:
    """Sign in, follow live updates, and change something with a form."""
    serve = deployed.serves[0]
    serve.admin("users", "add", "ada@example.com", "--role", "admin")
    link = serve.admin("users", "sign-in-link", "ada@example.com").split()[0]
    assert link.startswith(f"{deployed.url}/sign-in?token=")
    origin = httpx.URL(deployed.url).copy_with(path="/")
    with deployed.client(headers={"Accept": "text/html"}, follow_redirects=True) as http:
        assert "Sign in" in http.get(deployed.url).text
        home = http.get(link)
        assert home.status_code == 200, home.text
        assert str(home.url) == f"{deployed.url}/"
        assert "__Host-agentjobs-session" in http.cookies
        with http.stream("GET", "/jobs/stream") as response:
            assert next(line for line in response.iter_lines() if line.startswith("event:"))
        account = http.get("/account").text
        token = account.partition('name="csrf" value="')[2].partition('"')[0]
        form = {"csrf": token, "name": "Ada L."}
        saved = http.post("/account/name", data=form, headers={"Origin": str(origin).rstrip("/")})
        assert "Your name was changed." in saved.text


def check_command_line(deployed: Deployment) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(deployed.directory),
        "AGENTJOBS_URL": deployed.url,
        "AGENTJOBS_API_KEY": deployed.key,
        "AGENTJOBS_CA_FILE": str(deployed.proxy.ca_file),
    }
    listed = subprocess.run(
        [PROGRAM, "jobs", "list", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stderr
    assert len(json.loads(listed.stdout)["jobs"]) == 2


def check_client_address(deployed: Deployment) -> None:
    """The service sees the visitor's address, not that of the proxy or a forged one."""
    lines = [
        json.loads(line)
        for serve in deployed.serves
        for line in serve.log().splitlines()
        if line.startswith("{")
    ]
    requests = [line for line in lines if line.get("path") == "/v1/docs"]
    assert [line["client"] for line in requests] == [VISITOR]
    assert all(line.get("client") != FORGED for line in lines)


def check_restart(deployed: Deployment, api: Api) -> None:
    """Both `serve` get requests, and one can stop without an error."""
    first = deployed.serves[0]
    assert all('"path":"/v1/' in serve.log() for serve in deployed.serves)
    assert first.stop() == 0
    for _ in range(8):
        assert api.http.get("/me").status_code == 200
    first.start()
    wait_until(lambda: api.http.get("/me").status_code == 200, "the service to respond")
