"""Runs nginx and Caddy with the configurations in packaging/proxy, in front of two services."""

import os
import re
import secrets
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

from tests.support.paths import PROJECT
from tests.support.postgres import free_port
from tests.support.service import wait_until

FILES = PROJECT / "packaging" / "proxy"
NAME = "agents.example.com"
SERVICE = "127.0.0.1:8080"
SERVICE_PORT = 8080
# Outside the PATH of ordinary users.
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"


@dataclass(frozen=True)
class ReverseProxy:
    """`url` is the public URL; two services listen on `hosts`, on the port of the example."""

    url: str
    ca_file: Path
    hosts: tuple[str, str]
    log: Path

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca_file))


@contextmanager
def reverse_proxy(kind: str, path: str, directory: Path) -> Iterator[ReverseProxy]:
    """`kind` is nginx or caddy; `path` is that of the public URL, or empty."""
    directory.mkdir()
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(directory / "authority.pem"))
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(directory / "server.pem"))
    port = free_port()
    hosts = _free_address(), _free_address()
    command = {"nginx": _nginx, "caddy": _caddy}[kind](directory, port, path, hosts)
    log = directory / "proxy.log"
    environment = {"HOME": str(directory), "PATH": os.environ["PATH"]}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=directory, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        wait_until(lambda: _listens(port) or process.poll() is not None, f"{kind} to listen")
        assert process.poll() is None, log.read_text()
        yield ReverseProxy(
            f"https://localhost:{port}{path}", directory / "authority.pem", hosts, log
        )
    finally:
        process.terminate()
        process.wait(30)


def _nginx(directory: Path, port: int, path: str, hosts: tuple[str, str]) -> list[str]:
    site = (FILES / "nginx.conf").read_text()
    site = _replace(site, f"server {SERVICE};", " ".join(f"server {host}:8080;" for host in hosts))
    # Tests cannot listen on port 80.
    plain, _, site = site.partition("server {\n    listen 80;")
    site = plain + "server {\n" + site.partition("\nserver {\n")[2]
    site = _replace(site, "listen 443 ssl http2;", f"listen 127.0.0.1:{port} ssl http2;")
    site = _replace(site, f"server_name {NAME};", "server_name localhost;")
    site = _replace(site, f"/etc/ssl/certs/{NAME}.pem", str(directory / "server.pem"))
    site = _replace(site, f"/etc/ssl/private/{NAME}.key", str(directory / "server.pem"))
    if path:
        location = re.compile(r"location (/\S*) \{(.*?proxy_pass http://agentjobs);", re.DOTALL)
        site, count = location.subn(rf"location {path}\1 {{\2\1;", site)
        assert count == 3
    (directory / "site.conf").write_text(site)
    temporary = "".join(
        f"{name}_temp_path {directory}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (directory / "nginx.conf").write_text(
        ("user root;" if os.geteuid() == 0 else "") + "daemon off; worker_processes 1;"
        f"error_log stderr; pid {directory}/nginx.pid; events {{}}"
        f"http {{ access_log off; {temporary} include {directory}/site.conf; }}"
    )
    return [NGINX, "-p", str(directory), "-c", str(directory / "nginx.conf")]


def _caddy(directory: Path, port: int, path: str, hosts: tuple[str, str]) -> list[str]:
    site = (FILES / "Caddyfile").read_text()
    site = _replace(site, SERVICE, " ".join(f"{host}:8080" for host in hosts))
    certificate = directory / "server.pem"
    site = _replace(
        site,
        f"\n{NAME} {{",
        # Without an administration port, HTTP/3 and the redirect from port 80.
        "\n{\n\tadmin off\n\tauto_https disable_redirects\n\tservers {\n\t\tprotocols h1 h2\n\t}\n}"
        f"\nhttps://localhost:{port} {{\n\tbind 127.0.0.1\n\ttls {certificate} {certificate}",
    )
    if path:
        site = _replace(site, "\thandle {", f"\tredir {path} {path}/\n\thandle_path {path}/* {{")
    (directory / "Caddyfile").write_text(site)
    return ["caddy", "run", "--config", str(directory / "Caddyfile")]


def _replace(text: str, old: str, new: str) -> str:
    assert old in text, f"the example has no {old!r}"
    return text.replace(old, new)


def _free_address() -> str:
    """A loopback address of its own, where no other test has the port."""
    return (
        f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
    )


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
