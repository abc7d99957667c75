"""Which certificates of API servers are accepted."""

import asyncio
import json
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from agentjobs_kubernetes.api_client import open_client


def as_since_python_3_13(create: Callable[..., ssl.SSLContext]) -> Callable[..., ssl.SSLContext]:
    def create_strict(*arguments: object, **options: object) -> ssl.SSLContext:
        context = create(*arguments, **options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    return create_strict


def test_an_authority_without_key_identifiers_is_accepted_and_everything_else_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, config = tmp_path / "ca.crt", tmp_path / "config"
    trustme.CA().cert_pem.write_to_path(str(authority))
    server = {"server": "https://cluster.example", "certificate-authority": str(authority)}
    content = {
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    config.write_text(json.dumps(content))
    monkeypatch.setenv("KUBECONFIG", str(config))
    strict = as_since_python_3_13(ssl.create_default_context)
    monkeypatch.setattr(ssl, "create_default_context", strict)
    client = open_client("agents")
    context: ssl.SSLContext = client._client._client._transport._pool._ssl_context
    asyncio.run(client.close())
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
