"""Incoming platform webhooks: which deliveries are accepted, and the responses."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest

from agentjobs.connections.connections import (
    AddedConnection,
    NewConnection,
    remove_connection,
    rotate_hook_secret,
)
from agentjobs.connections.hook_urls import hook_path
from agentjobs.repos.hook_rows import request_hooks, seal_context, store_secret
from agentjobs.store.database import Row, Transaction
from agentjobs.web.hooks import limits
from service.tests.unit.web.service import ORGANIZATION, Service, refusal
from tests.support.added_connections import add_connection

PUSH = json.dumps({"ref": "refs/heads/main", "repository": {"id": 5}}).encode()
MIB = 1024 * 1024


@dataclass
class Sender:
    """A platform that knows its secret, unless a test says otherwise."""

    service: Service
    http: httpx.AsyncClient
    added: AddedConnection
    pieces_read: int = 0

    async def send(
        self,
        body: bytes = PUSH,
        *,
        secret: str | None = None,
        platform: str = "github",
        connection_id: str | None = None,
        repo_id: str = "",
        **headers: str,
    ) -> httpx.Response:
        secret = self.added.hook_secret if secret is None else secret
        digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        request_headers = {
            "Content-Type": "application/json",
            "X-GitHub-Event": "push",
            "X-GitHub-Delivery": "d-1",
            "X-Hub-Signature-256": f"sha256={digest}",
            "X-Gitea-Signature": digest,
            "X-Gitlab-Token": secret,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        place = connection_id or self.added.connection.id
        return await self.http.post(
            hook_path(platform, place, repo_id), content=body, headers=request_headers
        )

    async def stream(
        self,
        *pieces: bytes | AsyncIterator[bytes],
        connection_id: str,
        platform: str = "github",
        **headers: str,
    ) -> httpx.Response:
        """Streams a body with a wrong signature; `pieces_read` counts the chunks that were read."""
        self.pieces_read = 0

        async def content() -> AsyncIterator[bytes]:
            for piece in pieces:
                self.pieces_read += 1
                if isinstance(piece, bytes):
                    yield piece
                else:
                    async for part in piece:
                        yield part

        signed = {"X-Hub-Signature-256": "sha256=wrong", **headers}
        request_headers = {name.replace("_", "-"): value for name, value in signed.items()}
        place = f"/hooks/{platform}/{connection_id}"
        return await self.http.post(place, content=content(), headers=request_headers)

    async def hints(self) -> list[Row]:
        return await self.service.harness.db.fetch_all("SELECT * FROM platform_hints ORDER BY id")


@pytest.fixture
async def sender(service: Service) -> AsyncIterator[Sender]:
    transport = httpx.ASGITransport(service.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as http:
        yield Sender(service, http, await create_connection(service))


async def create_connection(service: Service, organization: str = ORGANIZATION) -> AddedConnection:
    new = NewConnection(platform="github", credential="ghp_1")
    return await add_connection(service.harness.db, service.context.keys, organization, new)


async def insert_repository(sender: Sender) -> None:
    """The repository that `PUSH` names."""

    async def insert(tx: Transaction) -> None:
        await tx.execute(
            "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
            " head_commit, created_at, connection_id, external_id)"
            " VALUES ('repo_5', :organization_id, 'acme/five', 'github', '', 'main', '',"
            " 1, :connection_id, '5')",
            organization_id=sender.added.connection.organization_id,
            connection_id=sender.added.connection.id,
        )

    await sender.service.harness.db.transact(insert)


async def test_a_delivery_is_stored_once(sender: Sender) -> None:
    response = await sender.send()
    # The repository is not connected, so the delivery is not stored.
    assert (response.status_code, response.json()) == (202, {"status": "ignored"})
    await insert_repository(sender)
    with sender.service.harness.db.changes.listen("platforms") as signal:
        response = await sender.send()
        assert (response.status_code, response.json()) == (202, {"status": "accepted"})
        assert await signal.wait(30)
    response = await sender.send()
    assert (response.status_code, response.json()) == (202, {"status": "known"})
    (row,) = await sender.hints()
    assert (row["connection_id"], row["delivery_id"]) == (sender.added.connection.id, "d-1")


@pytest.mark.parametrize(
    ("body", "event"),
    [(b'{"zen": "x"}', "ping"), (b"{}", "star"), (b"{", "push"), (b"[" * 9_999, "push")],
)
async def test_irrelevant_deliveries_are_accepted_and_ignored(
    sender: Sender, body: bytes, event: str
) -> None:
    response = await sender.send(body, X_GitHub_Event=event)
    assert (response.status_code, response.json()) == (202, {"status": "ignored"})
    assert await sender.hints() == []
    row = await sender.service.harness.db.fetch_one("SELECT hook_seen_at FROM platform_connections")
    assert row is not None
    assert row["hook_seen_at"] is not None


async def test_a_sender_without_the_secret_learns_nothing(sender: Sender) -> None:
    service = sender.service
    db = service.harness.db
    await service.harness.organization("rival")
    other = await create_connection(service, "rival")
    altered = PUSH.replace(b"5", b"6")
    signed = hmac.new(sender.added.hook_secret.encode(), PUSH, hashlib.sha256).hexdigest()
    responses = [
        await sender.send(secret="wrong"),
        await sender.send(secret=""),
        await sender.send(altered, X_Hub_Signature_256=f"sha256={signed}"),
        # Another organization's connection with this organization's secret.
        await sender.send(connection_id=other.connection.id),
        await sender.send(platform="gitea"),
        await sender.send(platform="gitlab"),
        await sender.send(platform="bitbucket"),
        await sender.send(connection_id="fcn_unknown"),
        await sender.send(connection_id="%C3%A4"),
    ]
    await rotate_hook_secret(db, service.context.keys, ORGANIZATION, "github")
    responses.append(await sender.send())
    await remove_connection(db, ORGANIZATION, "github")
    responses.append(await sender.send())
    assert {refusal(response) for response in responses} == {(401, "unauthorized")}
    assert len({response.json()["error"]["message"] for response in responses}) == 1
    assert await sender.hints() == []
    rows = await db.fetch_all("SELECT id FROM platform_connections WHERE hook_seen_at IS NOT NULL")
    assert rows == []


async def test_a_body_of_5_mib_is_read_and_a_larger_one_is_not(sender: Sender) -> None:
    await insert_repository(sender)
    padded = PUSH[:-1] + b', "x": "' + b"a" * (5 * MIB - len(PUSH) - 9) + b'"}'
    assert (await sender.send(padded)).json() == {"status": "accepted"}
    for secret in (None, "wrong"):
        response = await sender.send(b" " * (5 * MIB + 1), secret=secret)
        assert refusal(response) == (413, "payload_too_large")
        assert response.headers["connection"] == "close"

    for connection_id in (sender.added.connection.id, "fcn_unknown"):
        # The rest is discarded, so that a proxy passes the response on; up to a limit.
        for pieces, pieces_read in ((6, 6), (40, 26)):
            response = await sender.stream(*[b" " * MIB] * pieces, connection_id=connection_id)
            assert refusal(response) == (413, "payload_too_large")
            assert sender.pieces_read <= pieces_read + 6


async def test_a_request_without_a_signature_is_refused_unread(sender: Sender) -> None:
    new = NewConnection(platform="gitlab", credential="glpat-1")
    service = sender.service
    added = await add_connection(service.harness.db, service.context.keys, ORGANIZATION, new)
    for connection_id in (added.connection.id, "fcn_unknown"):
        response = await sender.stream(
            PUSH, platform="gitlab", connection_id=connection_id, X_Gitlab_Token="wrong"
        )
        assert (refusal(response), sender.pieces_read) == ((401, "unauthorized"), 0)
    response = await sender.send(
        platform="gitlab", connection_id=added.connection.id, secret=added.hook_secret
    )
    assert response.status_code == 202


async def test_bodies_being_read_are_bounded_and_unknown_senders_use_no_memory(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_TOTAL_BYTES", 3 * MIB)
    started, resume = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b" " * 2 * MIB
        started.set()
        await resume.wait()

    def send_slowly(connection_id: str) -> asyncio.Task[httpx.Response]:
        started.clear()
        return asyncio.create_task(sender.stream(slow(), connection_id=connection_id))

    unknown = send_slowly("fcn_unknown")
    await started.wait()
    first = send_slowly(sender.added.connection.id)
    await started.wait()
    response = await sender.stream(*[b" " * MIB] * 3, connection_id=sender.added.connection.id)
    assert (response.status_code, response.json()) == (202, {"status": "dropped"})
    assert sender.pieces_read == 3
    resume.set()
    assert refusal(await unknown) == refusal(await first) == (401, "unauthorized")
    # The memory is free again.
    response = await sender.stream(b" " * 2 * MIB, connection_id=sender.added.connection.id)
    assert refusal(response) == (401, "unauthorized")


async def test_deliveries_beyond_the_rate_of_a_connection_are_dropped_without_an_error(
    sender: Sender, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """GitLab disables a hook after four errors in a row."""
    await insert_repository(sender)
    monkeypatch.setattr(limits, "HOOKS_BURST", 3)
    monkeypatch.setattr(limits, "HOOKS_PER_SECOND", 0.001)
    sender.service.context.hook_limits = limits.HookLimits()
    # Senders without the secret do not consume the connection's rate limit.
    for _ in range(5):
        assert (await sender.send(secret="wrong")).status_code == 401
    responses = [await sender.send(X_GitHub_Delivery=f"d-{number}") for number in range(50)]
    assert {response.status_code for response in responses} == {202}
    assert [response.json()["status"] for response in responses[:4]] == [
        *["accepted"] * 3,
        "dropped",
    ]
    assert len(await sender.hints()) == 3
    assert len([record for record in caplog.records if "dropped" in record.message]) == 1
    await sender.service.harness.organization("rival")
    other = await create_connection(sender.service, "rival")
    response = await sender.send(connection_id=other.connection.id, secret=other.hook_secret)
    assert response.status_code == 202


async def test_a_compressed_body_and_a_form_are_refused(sender: Sender) -> None:
    response = await sender.send(Content_Encoding="gzip")
    assert refusal(response) == (415, "unsupported_media_type")
    response = await sender.send(b"payload=x", Content_Type="application/x-www-form-urlencoded")
    assert refusal(response) == (415, "unsupported_media_type")
    assert "application/json" in response.json()["error"]["message"]
    response = await sender.http.get(f"/hooks/github/{sender.added.connection.id}")
    assert refusal(response) == (405, "method_not_allowed")


async def test_a_locked_secret_is_reported_in_the_operators_log(sender: Sender) -> None:
    sender.service.context.keys.path.unlink()
    response = await sender.send()
    assert refusal(response) == (503, "unavailable")
    assert str(sender.service.context.keys.path) not in response.text


async def test_a_registered_webhook_has_its_own_secret_and_repository(sender: Sender) -> None:
    await insert_repository(sender)
    db, connection = sender.service.harness.db, sender.added.connection
    await db.transact(request_hooks, ["repo_5"])
    assert (await sender.send(repo_id="repo_5", secret="")).status_code == 401
    context = seal_context(connection.organization_id, "repo_5")
    sealed = sender.service.context.keys.seal("its-own-secret", *context)
    await db.transact(store_secret, "repo_5", sealed)

    accepted = await sender.send(repo_id="repo_5", secret="its-own-secret")
    assert (accepted.status_code, accepted.json()) == (202, {"status": "accepted"})
    # Neither secret is accepted in the place of the other.
    assert (await sender.send(repo_id="repo_5")).status_code == 401
    assert (await sender.send(secret="its-own-secret")).status_code == 401
    other = json.dumps({"ref": "refs/heads/main", "repository": {"id": 6}}).encode()
    ignored = await sender.send(other, repo_id="repo_5", secret="its-own-secret")
    assert (ignored.status_code, ignored.json()) == (202, {"status": "ignored"})
    for repo_id in ("repo_6", "répo"):
        assert (await sender.send(repo_id=repo_id, secret="x")).status_code == 401
