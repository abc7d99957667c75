"""Where platforms tell that something happened: who is believed, and what is answered."""

import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest

from agentjobs.forges.connections import (
    AddedConnection,
    NewConnection,
    add_connection,
    remove_connection,
    rotate_hook_secret,
)
from agentjobs.store.database import Row
from tests.unit.web.service import ORGANIZATION, Service, refusal

PUSH = json.dumps({"ref": "refs/heads/main", "repository": {"id": 5}}).encode()
MIB = 1024 * 1024


@dataclass
class Sender:
    """A platform that knows its secret, unless a test says otherwise."""

    service: Service
    http: httpx.AsyncClient
    added: AddedConnection

    async def send(
        self,
        body: bytes = PUSH,
        *,
        secret: str | None = None,
        platform: str = "github",
        connection_id: str | None = None,
        **headers: str,
    ) -> httpx.Response:
        secret = self.added.hook_secret if secret is None else secret
        digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        sent = {
            "Content-Type": "application/json",
            "X-GitHub-Event": "push",
            "X-GitHub-Delivery": "d-1",
            "X-Hub-Signature-256": f"sha256={digest}",
            "X-Gitea-Signature": digest,
            "X-Gitlab-Token": secret,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        place = connection_id or self.added.connection.id
        return await self.http.post(f"/hooks/{platform}/{place}", content=body, headers=sent)

    async def hints(self) -> list[Row]:
        return await self.service.world.db.fetch_all("SELECT * FROM forge_hints ORDER BY id")


@pytest.fixture
async def sender(service: Service) -> AsyncIterator[Sender]:
    transport = httpx.ASGITransport(service.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as http:
        yield Sender(service, http, await connected(service))


async def connected(service: Service, organization: str = ORGANIZATION) -> AddedConnection:
    new = NewConnection(platform="github", credential="ghp_1")
    return await add_connection(service.world.db, service.context.keys, organization, new)


async def test_what_a_platform_tells_is_remembered_once(sender: Sender) -> None:
    with sender.service.world.db.changes.listen("forges") as signal:
        answer = await sender.send()
        assert (answer.status_code, answer.json()) == (202, {"status": "accepted"})
        assert await signal.wait(5)
    answer = await sender.send()
    assert (answer.status_code, answer.json()) == (202, {"status": "known"})
    (row,) = await sender.hints()
    assert (row["connection_id"], row["delivery_id"], row["kind"], row["external_id"]) == (
        sender.added.connection.id,
        "d-1",
        "push",
        "5",
    )


@pytest.mark.parametrize(
    ("body", "event"),
    [(b'{"zen": "x"}', "ping"), (b"{}", "star"), (b"{", "push"), (b"[" * 9_999, "push")],
)
async def test_what_means_nothing_to_us_is_taken_and_forgotten(
    sender: Sender, body: bytes, event: str
) -> None:
    answer = await sender.send(body, X_GitHub_Event=event)
    assert (answer.status_code, answer.json()) == (202, {"status": "ignored"})
    assert await sender.hints() == []
    row = await sender.service.world.db.fetch_one("SELECT hook_seen_at FROM forge_connections")
    assert row is not None
    assert row["hook_seen_at"] is not None


async def test_who_does_not_know_the_secret_learns_nothing(sender: Sender) -> None:
    service = sender.service
    db = service.world.db
    await service.world.organization("rival")
    other = await connected(service, "rival")
    spoilt = PUSH.replace(b"5", b"6")
    signed = hmac.new(sender.added.hook_secret.encode(), PUSH, hashlib.sha256).hexdigest()
    answers = [
        await sender.send(secret="wrong"),
        await sender.send(secret=""),
        await sender.send(spoilt, X_Hub_Signature_256=f"sha256={signed}"),
        # Another organization's connection, with the secret of this one.
        await sender.send(connection_id=other.connection.id),
        await sender.send(platform="gitea"),
        await sender.send(platform="gitlab"),
        await sender.send(platform="bitbucket"),
        await sender.send(connection_id="fcn_unknown"),
        await sender.send(connection_id="%C3%A4"),
    ]
    await rotate_hook_secret(db, service.context.keys, ORGANIZATION, "github")
    answers.append(await sender.send())
    await remove_connection(db, ORGANIZATION, "github")
    answers.append(await sender.send())
    assert {refusal(answer) for answer in answers} == {(401, "unauthorized")}
    assert len({answer.json()["error"]["message"] for answer in answers}) == 1
    assert await sender.hints() == []
    rows = await db.fetch_all("SELECT id FROM forge_connections WHERE hook_seen_at IS NOT NULL")
    assert rows == []


async def test_a_body_of_5_mib_is_read_and_a_larger_one_is_not(sender: Sender) -> None:
    padded = PUSH[:-1] + b', "x": "' + b"a" * (5 * MIB - len(PUSH) - 9) + b'"}'
    assert (await sender.send(padded)).json() == {"status": "accepted"}
    for secret in (None, "wrong"):
        answer = await sender.send(b" " * (5 * MIB + 1), secret=secret)
        assert refusal(answer) == (413, "payload_too_large")
        assert answer.headers["connection"] == "close"

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(6):
            yield b" " * MIB

    place = f"/hooks/github/{sender.added.connection.id}"
    answer = await sender.http.post(place, content=pieces())
    assert refusal(answer) == (413, "payload_too_large")


async def test_a_packed_body_and_a_form_are_refused(sender: Sender) -> None:
    answer = await sender.send(Content_Encoding="gzip")
    assert refusal(answer) == (415, "unsupported_media_type")
    answer = await sender.send(b"payload=x", Content_Type="application/x-www-form-urlencoded")
    assert refusal(answer) == (415, "unsupported_media_type")
    assert "application/json" in answer.json()["error"]["message"]
    answer = await sender.http.get(f"/hooks/github/{sender.added.connection.id}")
    assert refusal(answer) == (405, "method_not_allowed")


async def test_a_locked_secret_is_a_matter_of_the_operator(sender: Sender) -> None:
    sender.service.context.keys.path.unlink()
    answer = await sender.send()
    assert refusal(answer) == (503, "unavailable")
    assert str(sender.service.context.keys.path) not in answer.text
