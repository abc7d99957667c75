"""Projects with known vulnerabilities, locked by the real tools, and registry settings."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from agentjobs.advisories.registries.hosts import hosts_for
from agentjobs.settings import Settings
from agentjobs.settings.registries import public_registry
from tests.support.paths import PROJECT

RECORDS = PROJECT / "tests" / "data" / "advisory_records"
POETRY = PROJECT / ".venv-agents" / "bin"
NODE_TOOLS = PROJECT / ".npm-tests" / "node_modules" / ".bin"
UV = Path(sys.executable).with_name("uv")

_ADDRESS_MASKS = {socket.AF_INET: 32, socket.AF_INET6: 128}


def service_environment() -> dict[str, str]:
    """Recorded advisories, and registries at the addresses they resolve to on this machine."""
    settings = Settings(data_dir="unused")
    hosts = {host for ecosystem in ("PyPI", "npm") for host in hosts_for(settings, ecosystem)}
    masks = {mask for host in hosts for mask in _masks(host.rpartition(":")[0])}
    return {
        "PATH": os.pathsep.join([str(POETRY), str(NODE_TOOLS), os.environ["PATH"]]),
        "AGENTJOBS_ADVISORIES_SOURCE": str(RECORDS),
        "AGENTJOBS_EGRESS_ALLOW": ",".join(sorted(masks)),
        "AGENTJOBS_CA_FILE": os.environ.get("SSL_CERT_FILE", ""),
    }


def _masks(host: str) -> set[str]:
    addresses = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    return {f"{address[0]}/{_ADDRESS_MASKS[family]}" for family, *_, address in addresses}


def write(directory: Path, files: dict[str, str]) -> Path:
    directory.mkdir(parents=True)
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory


def plain_requirements(directory: Path) -> None:
    write(directory, {"requirements.txt": "# kept\nrequests[socks] == 2.25.0  # why\nsix\n"})


def uv_project(directory: Path) -> None:
    """requests requires urllib3."""
    project = '[project]\nname = "shop"\nversion = "1"\nrequires-python = ">=3.11"\n'
    write(directory, {"pyproject.toml": f'{project}dependencies = ["requests>=2.31"]\n'})
    _run(directory, UV, "lock", "--quiet", "--upgrade-package", "urllib3==2.0.5")


def npm_project(directory: Path) -> None:
    write(directory, {"package.json": '{\n  "dependencies": { "lodash": "4.17.20" }\n}\n'})
    npm(directory)


def pnpm_project(directory: Path) -> None:
    write(directory, {"package.json": '{\n  "dependencies": { "lodash": "4.17.20" }\n}\n'})
    pnpm = (NODE_TOOLS / "pnpm", "install", "--lockfile-only", "--ignore-scripts")
    _run(directory, *pnpm, f"--registry={public_registry('npm')}")
    lock = directory / "pnpm-lock.yaml"
    assert "4.17.20" in lock.read_text()


def go_module(directory: Path) -> None:
    """It imports the module, which `go mod tidy` would remove otherwise."""
    requirement = "require golang.org/x/text v0.3.7 // kept\n"
    source = 'package main\n\nimport _ "golang.org/x/text/language"\n\nfunc main() {}\n'
    files = {"go.mod": f"module shop\n\ngo 1.19\n\n{requirement}", "main.go": source}
    write(directory, files)


def maven_project(directory: Path) -> None:
    """The version is a property, as in most projects."""
    write(
        directory,
        {
            "pom.xml": """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>shop</groupId>
  <artifactId>shop</artifactId>
  <version>1</version>
  <properties>
    <spring.version>5.3.17</spring.version> <!-- kept -->
  </properties>
  <dependencies>
    <dependency>
      <groupId>org.springframework</groupId>
      <artifactId>spring-beans</artifactId>
      <version>${spring.version}</version>
    </dependency>
  </dependencies>
</project>
"""
        },
    )


def npm(directory: Path) -> None:
    _run(
        directory,
        *("npm", "install", "--package-lock-only", "--ignore-scripts", "--silent"),
        f"--registry={public_registry('npm')}",
    )


def _run(directory: Path, *command: str | Path, **environment: str) -> None:
    completed = subprocess.run(
        list(map(str, command)),
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, f"{command}: {completed.stdout}{completed.stderr}"
