"""What errors of an API server mean, whoever answers in its place."""

import httpx2
import msgspec
import pytest
from lightkube.core.exceptions import ApiError
from lightkube.models.meta_v1 import Status

from agentjobs_kubernetes.api_errors import (
    explain,
    is_outage,
    is_refusal,
    read_message,
    retry_after,
    status_code,
)
from agentjobs_kubernetes.api_retries import Backoff
from agentjobs_worker.sandbox.protocol import SandboxError, SandboxUnavailable

REQUEST = httpx2.Request("POST", "https://10.0.0.1/api/v1/namespaces/agents/pods")
RBAC = (
    'pods is forbidden: User "system:serviceaccount:agentjobs:worker" cannot create resource '
    '"pods" in API group "" in the namespace "agents"'
)
LIMIT_RANGES = (
    'pods "p" is forbidden: unable to CREATE /v1, Resource=pods at this time because there was an '
    "error enforcing limit ranges"
)
QUOTA = 'pods "p" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1'
SECURITY = 'pods "p" is forbidden: violates PodSecurity "restricted:latest": hostPath volumes'

IN_DELETION = (
    'pods "p" is forbidden: unable to create new content in namespace agents because it is being '
    "terminated"
)


def answer(
    code: int, message: str = "", content_type: str = "application/json", **headers: str
) -> httpx2.HTTPStatusError:
    body = msgspec.json.encode(Status(code=code, message=message)) if message else b"<html>"
    response = httpx2.Response(
        code, headers={"Content-Type": content_type, **headers}, content=body, request=REQUEST
    )
    return httpx2.HTTPStatusError("error", request=REQUEST, response=response)


@pytest.mark.parametrize(
    "error",
    [
        answer(429, "too many requests"),
        answer(500, "etcdserver: request timed out"),
        answer(502, content_type="text/html"),
        answer(503, "apiserver is shutting down"),
        answer(403, QUOTA),
        answer(403, LIMIT_RANGES),
        answer(403, 'pods "p" is forbidden: not yet ready to handle request'),
        answer(403, 'error looking up service account agents/default: "default" not found'),
        httpx2.ConnectError("[Errno 111] Connection refused"),
        httpx2.ReadTimeout("timed out"),
        httpx2.RemoteProtocolError("Server disconnected"),
        msgspec.DecodeError("invalid"),
        KeyError("Content-Type"),
    ],
)
def test_what_passes_is_waited_for(error: Exception) -> None:
    assert is_outage(error)
    assert read_message(error)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (answer(401, "Unauthorized"), SandboxUnavailable, "does not accept this worker's"),
        (answer(403, RBAC), SandboxUnavailable, "worker needs the permission to create pods in"),
        (answer(404, 'namespaces "agents" not found'), SandboxUnavailable, "kubectl create names"),
        (answer(403, IN_DELETION), SandboxUnavailable, "the namespace agents is being deleted"),
        (answer(403, SECURITY), SandboxError, "the cluster refuses to create a pod: pods"),
        (answer(422, "spec.x: Invalid value"), SandboxError, "refuses to create a pod: spec.x"),
        (answer(409, "conflict"), SandboxError, "this worker could not create a pod: conflict"),
        (answer(403, content_type="text/html"), SandboxError, "refuses to create a pod: HTTP stat"),
    ],
)
def test_what_does_not_pass_is_explained(
    error: Exception, kind: type[SandboxError], message: str
) -> None:
    assert not is_outage(error)
    explained = explain(error, "create a pod", "agents")
    assert type(explained) is kind
    assert message in str(explained)


def test_the_content_type_may_have_parameters() -> None:
    error = answer(403, RBAC, content_type="application/json; charset=utf-8")
    assert read_message(error) == RBAC
    assert is_refusal(error)


def test_an_error_inside_a_watch_has_its_own_code() -> None:
    error = ApiError(status=Status(code=410, message="too old resource version"))
    assert (status_code(error), retry_after(error)) == (410, 0)
    assert not is_outage(error)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3", 3), ("86400", 60), ("Wed, 21 Oct 2026 07:28:00 GMT", 0), ("-1", -1), ("", 0)],
)
def test_the_time_to_wait_is_read_and_bounded(text: str, seconds: float) -> None:
    assert retry_after(answer(429, "slow down", **{"Retry-After": text})) == seconds


def test_delays_grow_to_a_bound_and_respect_the_server() -> None:
    backoff, error = Backoff(), answer(503, "busy")
    delays = [backoff.next_delay(error) for _ in range(50)]
    assert 0 < delays[0] <= 0.2
    assert all(7 < delay <= 15 for delay in delays[10:])
    assert Backoff().next_delay(answer(429, "busy", **{"Retry-After": "9"})) == 9
