"""Common clients in a real sandbox reach a real server through the allow-list."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from agentjobs_runtime.outbound.egress.egress import PROXY_PORT, Egress
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_worker.agents.builtin_agents import python_files
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.process import ProcessSandbox
from agentjobs_worker.sandbox.protocol import SandboxPort, SandboxReport
from tests.support.sandbox import SandboxHarness, unused_uid_base
from tests.support.web_server import WebServer, web_server

HOST = "files.test"
NAMES = (HOST, "deep.wild.test")
LIBRARIES = Path(httpx.__file__).parents[1]


def lookup(host: str) -> list[str]:
    """Resolves every name to this machine, except the cloud metadata host."""
    return ["169.254.169.254"] if host == "metadata.test" else ["127.0.0.1"]


@dataclass
class EgressHarness:
    server: WebServer
    sandbox: SandboxHarness
    egress: Egress
    refused: list[str] = field(default_factory=list)

    async def run(self, *argv: str) -> SandboxReport:
        ports = tuple(
            SandboxPort(
                number=port,
                protocol=protocol,
                environment=self.egress.environment if port == PROXY_PORT else {},
            )
            for port, protocol in self.egress.ports.items()
        )
        certificates = "/workspace/authority.pem"
        environment = {
            "HTTP": f"http://{HOST}:{self.server.http_port}",
            "HTTPS": f"https://{HOST}:{self.server.https_port}",
            "WILD": f"https://deep.wild.test:{self.server.https_port}",
            "SSL_CERT_FILE": certificates,
            "CURL_CA_BUNDLE": certificates,
            "GIT_SSL_CAINFO": certificates,
            "NODE_EXTRA_CA_CERTS": certificates,
            "PYTHONPATH": str(LIBRARIES),
        }
        return await self.sandbox.run(
            *argv,
            environment=environment,
            ports=ports,
            hosts=self.egress.hosts,
            read_only=(*python_files(), LIBRARIES),
        )

    async def shell(self, script: str) -> list[str]:
        report = await self.run("sh", "-c", script)
        assert report.exit_code == 0, report.last_lines
        return report.last_lines.splitlines()

    async def python(self, script: str) -> list[str]:
        report = await self.run(sys.executable, "-c", script)
        assert report.exit_code == 0, report.last_lines
        return report.last_lines.splitlines()


@asynccontextmanager
async def egress_harness(tmp_path: Path, *patterns: str) -> AsyncIterator[EgressHarness]:
    files = tmp_path / "files"
    files.mkdir()
    async with web_server(*NAMES, files=files) as server:
        ports = (server.http_port, server.https_port)
        hosts = [f"{host}:{port}" for host in (HOST, "*.wild.test") for port in ports]
        refused: list[str] = []
        egress = Egress(
            [*hosts, *patterns], AllowList.parse(["127.0.0.1/32"]), refused.append, lookup=lookup
        )
        sandbox = SandboxHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)
        server.write_authority(sandbox.workspace / "authority.pem")
        yield EgressHarness(server, sandbox, egress, refused)
        await egress.close()


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[EgressHarness]:
    async with egress_harness(tmp_path, "metadata.test", "*.metadata.test") as harness:
        yield harness


async def test_curl_fetches_over_http_and_https(harness: EgressHarness) -> None:
    answers = await harness.shell("curl -fsS $HTTP/hello $HTTPS/hello $WILD/hello")
    assert [answer.split(":")[0] for answer in answers] == [
        f"hello {HOST}",
        f"hello {HOST}",
        "hello deep.wild.test",
    ]
    assert harness.refused == []


async def test_curl_without_a_proxy_reaches_hosts_named_in_full(harness: EgressHarness) -> None:
    answers = await harness.shell("curl --noproxy '*' -fsS $HTTP/hello $HTTPS/hello")
    assert [answer.split(":")[0] for answer in answers] == [f"hello {HOST}"] * 2


async def test_curl_sends_bodies_whole_with_and_without_a_proxy(harness: EgressHarness) -> None:
    answers = await harness.shell(
        "head -c 5000000 /dev/zero > big;"
        "for way in '' '--noproxy *'; do set -f; for url in $HTTP $HTTPS; do"
        " curl $way -fsS --data-binary @big $url/count;"
        " curl $way -fsS -H 'Transfer-Encoding: chunked' --data-binary @big $url/count;"
        "done; done"
    )
    assert answers == ["5000000 bytes"] * 8


async def test_a_client_that_reuses_its_connection_gets_every_response(
    harness: EgressHarness,
) -> None:
    answers = await harness.shell(
        "curl -fsS $HTTP/hello $HTTP/chunks $HTTP/hello $HTTP/hello | wc -l"
    )
    assert answers == ["103"]


async def test_large_responses_arrive_whole(harness: EgressHarness) -> None:
    answers = await harness.shell(
        "for url in $HTTP $HTTPS; do curl -fsS $url/big?mib=20 | wc -c; done"
    )
    assert answers == [str(20 * 1024 * 1024)] * 2


async def test_git_clones_over_http_and_https(harness: EgressHarness) -> None:
    _repository(harness.server.files)
    answers = await harness.shell(
        "git clone -q $HTTP/files/shop.git one && git clone -q $HTTPS/files/shop.git two &&"
        "env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY"
        " git clone -q $HTTPS/files/shop.git three && cat one/a two/a three/a"
    )
    assert answers == ["content"] * 3


async def test_pythons_own_client_fetches_over_http_and_https(harness: EgressHarness) -> None:
    answers = await harness.python(
        "import os, urllib.request\n"
        "for name in ('HTTP', 'HTTPS', 'WILD'):\n"
        "    print(urllib.request.urlopen(os.environ[name] + '/hello').read().decode().strip())\n"
        "none = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
        "print(none.open(os.environ['HTTPS'] + '/hello').read().decode().strip())\n"
    )
    assert len(answers) == 4


async def test_httpx_fetches_over_http_and_https(harness: EgressHarness) -> None:
    answers = await harness.python(
        "import httpx, os, ssl\n"
        "trusted = ssl.create_default_context()\n"
        "for environment in (True, False):\n"
        "    with httpx.Client(verify=trusted, trust_env=environment) as client:\n"
        "        for name in ('HTTP', 'HTTPS', 'HTTP', 'HTTPS'):\n"
        "            print(client.get(os.environ[name] + '/hello').text.strip())\n"
        "            client.post(os.environ[name] + '/count', content=b'x' * 100_000)\n"
    )
    assert len(answers) == 8


async def test_nodes_fetch_and_https_work_without_proxy_support(harness: EgressHarness) -> None:
    (harness.sandbox.workspace / "client.js").write_text(
        "const https = require('https');\n"
        "const {HTTP, HTTPS} = process.env;\n"
        "(async () => {\n"
        "  for (const url of [HTTP, HTTPS, HTTP, HTTPS])\n"
        "    console.log((await (await fetch(url + '/hello')).text()).trim());\n"
        "  https.get(HTTPS + '/hello', answer => answer.pipe(process.stdout));\n"
        "})();\n"
    )
    (harness.sandbox.workspace / "client.js").chmod(0o644)
    answers = await harness.shell("node client.js")
    assert [answer.split(":")[0] for answer in answers] == [f"hello {HOST}"] * 5


async def test_an_unlisted_host_is_refused_with_a_reason_and_reported_once(
    harness: EgressHarness,
) -> None:
    answers = await harness.shell(
        "curl -sS http://evil.test/; curl -s -o /dev/null -w '%{http_code}\\n' http://evil.test/;"
        "curl -sS https://evil.test/ 2>&1 | tail -1; curl -sS http://evil.test:8080/;"
        f"curl -sS http://{HOST}/"
    )
    assert answers == [
        "agentjobs: evil.test:80 is not in this agent's network list",
        "403",
        "curl: (56) CONNECT tunnel failed, response 403",
        "agentjobs: evil.test:8080 is not in this agent's network list",
        f"agentjobs: {HOST}:80 is not in this agent's network list",
    ]
    assert harness.refused == [
        "evil.test:80 is not in this agent's network list",
        "evil.test:443 is not in this agent's network list",
        "evil.test:8080 is not in this agent's network list",
        f"{HOST}:80 is not in this agent's network list",
    ]
    assert harness.server.requests == []


async def test_an_allowed_host_does_not_lead_to_another_over_plain_http(
    harness: EgressHarness,
) -> None:
    answers = await harness.shell(
        "for way in '' '--proxytunnel' '--noproxy *'; do set -f;"
        " curl $way -sS -H 'Host: evil.test' $HTTP/hello 2>&1 || true;"
        " curl $way -fsS $HTTP/hello; done"
    )
    # The proxy replaces the header, as the standard requires; a tunnel is closed.
    assert [answer.split(":")[0] for answer in answers] == [
        *(f"hello {HOST}", f"hello {HOST}"),
        *("curl", f"hello {HOST}") * 2,
    ]
    assert len(harness.server.requests) == 4
    (line,) = harness.refused
    assert "evil.test" in line


@pytest.mark.parametrize(
    "target",
    [
        *("127.0.0.2", "2130706433", "0x7f.1", "0177.0.0.2", "[::1]", "[::ffff:127.0.0.1]"),
        *("169.254.169.254", "10.0.0.1"),
    ],
)
async def test_no_spelling_of_an_address_bypasses_the_policy(
    harness: EgressHarness, target: str
) -> None:
    port = harness.server.http_port
    answers = await harness.python(
        "import os, socket\n"
        f"with socket.create_connection(('127.0.0.1', {PROXY_PORT})) as s:\n"
        f"    s.sendall(b'GET http://{target}:{port}/hello HTTP/1.1\\r\\n\\r\\n')\n"
        "    print(s.makefile().readline())\n"
    )
    assert answers[0].split()[1] in {"400", "403"}
    assert harness.server.requests == []


async def test_a_permitted_name_that_resolves_to_the_metadata_address_is_blocked(
    harness: EgressHarness,
) -> None:
    answers = await harness.shell(
        "curl -sS http://metadata.test/latest/;"
        "curl -sS --noproxy '*' http://metadata.test/latest/ 2>&1 || true"
    )
    assert answers[0].startswith("agentjobs: metadata.test:80 is blocked: metadata.test: ")
    assert "AGENTJOBS_EGRESS_ALLOW" in answers[0]
    assert "(52)" in answers[1] or "(56)" in answers[1]
    assert len(harness.refused) == 1


async def test_without_a_sandbox_the_proxy_is_found_on_the_machine(
    harness: EgressHarness, tmp_path: Path
) -> None:
    (tmp_path / "none").mkdir()
    harness.sandbox = SandboxHarness(ProcessSandbox(), tmp_path / "none")
    answers = await harness.shell("curl -fsS $HTTP/hello; curl -sS http://evil.test/")
    assert answers[0].startswith(f"hello {HOST}")
    assert answers[1] == "agentjobs: evil.test:80 is not in this agent's network list"


async def test_the_sandbox_has_no_other_network_access(harness: EgressHarness) -> None:
    answers = await harness.shell(
        f"for target in 127.0.0.1:{harness.server.http_port} 1.1.1.1:80 169.254.169.254:80; do"
        " curl --noproxy '*' -s -o /dev/null --max-time 5 http://$target/; echo $?; done"
    )
    # The port is open inside the sandbox, but 127.0.0.1 is not the address of any host.
    assert answers[0] in {"52", "56"}
    assert answers[1:] == ["7", "7"]
    assert harness.server.requests == []


def _repository(directory: Path) -> None:
    work = directory / "work"
    work.mkdir()
    (work / "a").write_text("content\n")
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        (*identity, "commit", "-q", "-m", "one"),
        ("clone", "-q", "--bare", ".", "../shop.git"),
        ("--git-dir=../shop.git", "update-server-info"),
    ):
        subprocess.run(["git", *arguments], cwd=work, check=True)
