"""What admins enter for a secret of an environment."""

from typing import Any

import pytest

from agentjobs.environments.secret_definition import (
    SecretDefinition,
    SecretInput,
    SecretUsage,
    parse_secret,
)
from agentjobs_runtime.problems import Problem

REPO = "repo_1"
HEADER = "Authorization: Bearer {secret}"


def parse(purpose: str, repo_id: str = REPO, **fields: Any) -> SecretDefinition:
    values = {"name": "TOKEN", "value": "s3cret-value", **fields}
    return parse_secret(SecretInput(purpose=purpose, **values), repo_id)


def test_a_secret_for_setup_has_a_name_and_a_repository() -> None:
    assert parse("setup") == SecretDefinition(name="TOKEN", purpose="setup", repo_id=REPO)


def test_a_secret_for_the_proxy_has_a_host_and_a_header() -> None:
    definition = parse(
        "proxy",
        host="Packages.Acme.test",
        header="X-Key:{secret}",
        path_prefix="/api/npm/",
        methods="get,post",
        kind="npm",
    )
    assert definition.host == "packages.acme.test"
    assert definition.usage == SecretUsage(
        header="X-Key: {secret}", path_prefix="/api/npm/", methods=("GET", "POST"), kind="npm"
    )
    usage = parse("proxy", host="a.test", header=HEADER).usage
    assert (usage.path_prefix, usage.methods, usage.kind) == ("/", ("GET", "HEAD"), "")


def test_a_secret_for_a_registry_has_a_host_and_a_user() -> None:
    definition = parse("registry", "", host="Registry.test:5000", username="robot$build")
    assert definition.host == "registry.test:5000"
    assert definition.usage == SecretUsage(username="robot$build")
    assert definition.repo_id == ""


@pytest.mark.parametrize(
    ("purpose", "repo_id", "fields", "reason"),
    [
        ("models", REPO, {}, "is for setup, proxy or registry"),
        ("setup", "", {}, "Name the repository"),
        ("proxy", "", {"host": "a.test", "header": HEADER}, "Name the repository"),
        ("registry", REPO, {"host": "a.test", "username": "u"}, "name none"),
        ("setup", REPO, {"name": "no-name"}, "not a valid secret name"),
        ("setup", REPO, {"name": "HOME"}, "the service sets HOME"),
        ("setup", REPO, {"name": "AGENTJOBS_X"}, "the service sets HOME"),
        ("setup", REPO, {"value": " "}, "is empty"),
        ("setup", REPO, {"value": "short"}, "at least 8 characters"),
        ("setup", REPO, {"value": "x" * 17_000}, "at most 16 KiB"),
        ("setup", REPO, {"host": "a.test"}, "has no host"),
        ("setup", REPO, {"path_prefix": "/"}, "has no path prefix"),
        ("proxy", REPO, {"header": HEADER}, "needs a host"),
        ("proxy", REPO, {"host": "a.test"}, "needs a header"),
        ("proxy", REPO, {"host": "a.test", "header": HEADER, "username": "u"}, "no username"),
        ("proxy", REPO, {"host": "*.a.test", "header": HEADER}, "one host"),
        ("proxy", REPO, {"host": "localhost", "header": HEADER}, "localhost"),
        ("proxy", REPO, {"host": "a.test", "header": "Authorization: x"}, "exactly once"),
        ("proxy", REPO, {"host": "a.test", "header": "Host: {secret}"}, "another one"),
        ("proxy", REPO, {"host": "a.test", "header": HEADER, "kind": "apt"}, "one of pip"),
        ("proxy", REPO, {"host": "a.test", "header": HEADER, "methods": "TRACE"}, "'TRACE'"),
        ("proxy", REPO, {"host": "a.test", "header": HEADER, "path_prefix": "/../"}, "not a path"),
        ("registry", "", {"host": "a.test"}, "needs a username"),
        ("registry", "", {"host": "https://a.test", "username": "u"}, "is not a registry"),
        ("registry", "", {"host": "registry", "username": "u"}, "is not a registry"),
        ("registry", "", {"host": "a.test/b", "username": "u"}, "is not a registry"),
        ("registry", "", {"host": "a b", "username": "u"}, "is not a registry"),
        ("registry", "", {"host": "a.test", "username": "u:v"}, "without a colon"),
        ("registry", "", {"host": "a.test", "username": "u\n"}, "printable"),
        ("registry", "", {"host": "a.test", "username": "u", "header": HEADER}, "has no header"),
    ],
)
def test_what_does_not_fit_is_refused(
    purpose: str, repo_id: str, fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Problem) as refusal:
        parse(purpose, repo_id, **fields)
    assert reason in refusal.value.message
    assert "s3cret-value" not in refusal.value.message
