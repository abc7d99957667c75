"""Runs the example receivers of docs/webhooks.md."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import httpx
import msgspec
import pytest

from agentjobs.webhooks.events import Payload
from agentjobs.webhooks.model import ClaimedDelivery, SealedSecrets, Secrets
from agentjobs.webhooks.signing import body_signature, new_secret, signed_headers
from agentjobs_runtime.clock import now_ms
from tests.support.paths import PROJECT

PAGE = (PROJECT / "docs" / "webhooks.md").read_text()
SECRET = new_secret()
PR_URL = "https://agentjobs.example.com/default/acme/shop/pulls/1"
BODY = msgspec.json.encode(
    Payload("job.completed", "job_1", "acme/shop", PR_URL, "2026-01-31T09:26:03.141Z")
)
PRINTED = f"job.completed job_1 {PR_URL}"
RECEIVERS = {
    "Python": ("receiver.py", [sys.executable, "-W", "error"]),
    "Node": ("receiver.mjs", ["node"]),
}


def example(heading: str) -> str:
    match = re.search(rf"^### {heading}\n.*?^```\w+\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert match, f"no example below the heading {heading}"
    return match[1]


def signed(event_id: str = "evt_1", secret: str = SECRET, body: bytes = BODY) -> dict[str, str]:
    """The headers that the service sends with a delivery."""
    delivery = ClaimedDelivery(
        id="dlv_1",
        fence=1,
        organization_id="org_1",
        endpoint_id="whk_1",
        url="https://receiver.example.com/",
        secrets=SealedSecrets(b""),
        event_id=event_id,
        event="job.completed",
        job_id="job_1",
        sequence=3,
        body=body,
    )
    return signed_headers(delivery, Secrets(secret), now_ms())


class Receiver:
    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self._process = process
        self.url = url
        self.address = url.removeprefix("http://").rstrip("/")

    def status_for(self, body: bytes, headers: dict[str, str]) -> int:
        return httpx.post(self.url, content=body, headers=headers, trust_env=False).status_code

    def next_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def running(language: str, directory: Path, secret: str) -> Iterator[Receiver]:
    name, command = RECEIVERS[language]
    (directory / name).write_text(example(language))
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, str(directory / name)],
            env={**os.environ, "PORT": "0", "WEBHOOK_SECRET": secret},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            assert line.startswith("listening on http://"), (directory / "log").read_text()
            yield Receiver(process, line.removeprefix("listening on "))
        finally:
            process.terminate()


@pytest.fixture(params=RECEIVERS)
def language(request) -> str:
    return request.param


@pytest.fixture
def receiver(language, tmp_path) -> Iterator[Receiver]:
    with running(language, tmp_path, SECRET) as started:
        yield started


def test_a_receiver_accepts_signed_deliveries(receiver):
    assert receiver.status_for(BODY, signed()) == 204
    assert receiver.next_line() == PRINTED


def test_a_receiver_processes_an_event_once(receiver):
    second = BODY.replace(b"job_1", b"job_2")
    assert receiver.status_for(BODY, signed("evt_1")) == 204
    assert receiver.status_for(BODY, signed("evt_1")) == 204
    assert receiver.status_for(second, signed("evt_2", body=second)) == 204
    assert receiver.next_line() == PRINTED
    assert receiver.next_line() == PRINTED.replace("job_1", "job_2")


def test_a_receiver_rejects_invalid_signatures(receiver):
    headers = signed()
    bare = {name: text for name, text in headers.items() if name != "X-Service-Signature-256"}
    assert receiver.status_for(BODY.replace(b"acme/shop", b"evil/shop"), headers) == 401
    assert receiver.status_for(BODY, signed(secret=new_secret())) == 401
    assert receiver.status_for(BODY, {**headers, "X-Service-Signature-256": "sha256=00"}) == 401
    assert receiver.status_for(BODY, {**bare, "X-Service-Signature-256": ""}) == 401
    assert receiver.status_for(BODY, bare) == 401
    # The receiver still runs and has processed nothing.
    assert receiver.status_for(BODY, signed("evt_last")) == 204
    assert receiver.next_line() == PRINTED


@pytest.mark.parametrize("length", ["65537", "9" * 30, "9" * 5_000])
def test_a_receiver_rejects_oversized_bodies(receiver, length):
    connection = HTTPConnection(receiver.address, timeout=30)
    connection.putrequest("POST", "/")
    connection.putheader("Content-Length", length)
    connection.endheaders()
    # Node's HTTP parser rejects a number of this length itself.
    assert connection.getresponse().status in (413, 400)
    connection.close()


def test_a_receiver_survives_an_interrupted_request(receiver):
    connection = HTTPConnection(receiver.address, timeout=30)
    connection.putrequest("POST", "/")
    connection.putheader("Content-Length", "1000")
    connection.endheaders(BODY)
    connection.close()
    assert receiver.status_for(BODY, signed()) == 204
    assert receiver.next_line() == PRINTED


def test_a_receiver_with_both_secrets_works_during_a_rotation(language, tmp_path):
    old, new = new_secret(), new_secret()
    with running(language, tmp_path, f"{old} {new}") as receiver:
        assert receiver.status_for(BODY, signed(secret=old)) == 204
        assert receiver.status_for(BODY, signed(secret=new)) == 204
        assert receiver.status_for(BODY, signed()) == 401


def test_a_receiver_without_a_secret_rejects_everything(language, tmp_path):
    with running(language, tmp_path, "") as receiver:
        headers = {"X-Service-Signature-256": body_signature("", BODY)}
        assert receiver.status_for(BODY, headers) == 401


@pytest.fixture
def verify_in_shell(tmp_path):
    (tmp_path / "verify.sh").write_text(example("Shell"))

    def verify(
        body: bytes | None, *signature: str, secret: str = SECRET, path: str = os.environ["PATH"]
    ) -> int:
        if body is not None:
            (tmp_path / "body").write_bytes(body)
        result = subprocess.run(
            [shutil.which("sh"), str(tmp_path / "verify.sh"), str(tmp_path / "body"), *signature],
            env={**os.environ, "WEBHOOK_SECRET": secret, "PATH": path},
            capture_output=True,
            check=False,
        )
        assert (result.stdout == b"good\n") == (result.returncode == 0)
        return result.returncode

    return verify


def test_the_shell_script_distinguishes_valid_from_invalid_signatures(verify_in_shell):
    signature = signed()["X-Service-Signature-256"]
    assert verify_in_shell(BODY, signature) == 0
    assert verify_in_shell(BODY + b"\n", signature) == 1
    assert verify_in_shell(BODY, signature, secret=new_secret()) == 1
    assert verify_in_shell(BODY, "") == 1
    assert verify_in_shell(BODY) == 1
    assert verify_in_shell(BODY, body_signature("", BODY), secret="") != 0


@pytest.mark.parametrize("signature", [(), ("",), ("sha256=",)])
def test_the_shell_script_fails_without_a_digest(verify_in_shell, tmp_path, signature):
    # There is no such file.
    assert verify_in_shell(None, *signature) == 1
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cut").symlink_to(shutil.which("cut"))
    # There is no openssl.
    assert verify_in_shell(BODY, *signature, path=str(tools)) == 1


def test_the_shell_script_verifies_the_vector_of_the_page(verify_in_shell):
    secret, body = "It's a Secret to Everybody", b"Hello, World!"
    (signature,) = re.findall(r"sha256=[0-9a-f]{64}", PAGE)
    assert verify_in_shell(body, signature, secret=secret) == 0
