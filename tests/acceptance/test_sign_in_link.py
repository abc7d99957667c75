"""The sign-in link that `agentjobs up` shows on a laptop: in time, to its user only, once."""

import os
import pty
import re
import shutil
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.support.service import PROGRAM, wait_until

LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/sign-in\?token=[A-Za-z0-9_]+")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def data_dir(sqlite_template: Path, tmp_path: Path) -> Path:
    """With a migrated store: migrations take most of the CPU time of a first start."""
    directory = tmp_path / "data"
    directory.mkdir()
    shutil.copy(sqlite_template, directory / "agentjobs.db")
    return directory


def test_without_a_terminal_the_link_is_in_a_private_file_and_signs_in_once(
    data_dir: Path, tmp_path: Path
) -> None:
    port = free_port()
    printed = tmp_path / "stdout"
    with printed.open("w") as stdout, (tmp_path / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            [PROGRAM, "up", "--data-dir", str(data_dir), "--port", str(port)],
            stdout=stdout,
            stderr=stderr,
            env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        )
    try:
        wait_until(lambda: is_ready(port), "the service to be ready")
        # Once the service is ready, the whole line is printed. Without a terminal, it is a path.
        _, link_file = printed.read_text().splitlines()
        assert link_file == str(data_dir / "sign-in-link")
        link = Path(link_file).read_text().strip()
        assert LINK.fullmatch(link), link
        check_link(link)
        # A command does not know the service's flags, but finds its address.
        check_link(another_link(data_dir, port))
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_a_terminal_shows_the_link_and_where_the_log_is(data_dir: Path) -> None:
    port = free_port()
    terminal, stdout = pty.openpty()
    try:
        process = subprocess.Popen(
            [PROGRAM, "up", "--data-dir", str(data_dir), "--port", str(port)],
            stdout=stdout,
            stderr=stdout,
            env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        )
        os.close(stdout)
        try:
            wait_until(lambda: is_ready(port), "the service to be ready")
            lines = read_until(terminal, "Ctrl-C.").splitlines()
            first, second = (line for line in lines if line.startswith("http"))
            assert first == f"http://127.0.0.1:{port}/v1"
            assert LINK.fullmatch(second), lines
            log = data_dir / "agentjobs.log"
            assert any(str(log) in line for line in lines)
            assert not any(line.startswith("{") for line in lines)
            assert '"message":"' in log.read_text()
            assert log.stat().st_mode & 0o777 == 0o600
            assert not (data_dir / "sign-in-link").exists()
        finally:
            process.terminate()
            assert process.wait(60) == 0
    finally:
        os.close(terminal)


def read_until(terminal: int, end: str) -> str:
    screen = ""
    while end not in screen:
        screen += os.read(terminal, 10_000).decode()
    return screen


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
