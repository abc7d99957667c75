"""The sign-in link that `agentjobs up` prints on a laptop: printed in time, works once."""

import os
import re
import socket
import subprocess
from pathlib import Path

import httpx

from tests.support.service import PROGRAM, wait_until

LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/sign-in\?token=[A-Za-z0-9_]+")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_the_link_is_printed_before_the_service_is_ready_and_signs_in_once(tmp_path: Path) -> None:
    port = free_port()
    printed = tmp_path / "stdout"
    with printed.open("w") as stdout, (tmp_path / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            [PROGRAM, "up", "--data-dir", str(tmp_path / "data"), "--port", str(port)],
            stdout=stdout,
            stderr=stderr,
            env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        )
    try:
        wait_until(lambda: is_ready(port), "the service to be ready")
        # Once the service is ready, the whole line is printed, even without a terminal.
        lines = printed.read_text().splitlines()
        links = [line for line in lines if LINK.fullmatch(line)]
        assert len(links) == 1, lines
        check_link(links[0])
        # A command does not know the service's flags, but finds its address.
        check_link(another_link(tmp_path / "data", port))
    finally:
        process.terminate()
        assert process.wait(60) == 0


def another_link(data_dir: Path, port: int) -> str:
    command = [PROGRAM, "users", "sign-in-link", "admin@localhost", "--data-dir", str(data_dir)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    link = printed.stdout.strip()
    match = LINK.fullmatch(link)
    assert match is not None, link
    assert int(match[1]) == port
    return link


def is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def check_link(link: str) -> None:
    with httpx.Client(headers={"Accept": "text/html"}, timeout=20) as browser:
        response = browser.get(link)
        assert response.status_code == 303
        assert response.headers["location"] == "/"
        overview = browser.get(httpx.URL(link).join("/"))
        assert overview.status_code == 200
        assert "Administrator" in overview.text
    with httpx.Client(headers={"Accept": "text/html"}, timeout=20) as other_browser:
        repeated = other_browser.get(link)
        assert repeated.status_code == 400
        assert "set-cookie" not in repeated.headers
        assert "already used" in repeated.text
