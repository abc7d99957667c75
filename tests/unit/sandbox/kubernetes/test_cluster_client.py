"""Which certificates of API servers are accepted."""

import asyncio
import ssl
from typing import Any

from lightkube import KubeConfig, SingleConfig
from lightkube.config.client_adapter import ConnectionParams

from agentjobs.sandbox.kubernetes.cluster import http_client


class StrictParameters(ConnectionParams):
    """As those of Python 3.13 and newer."""

    def httpx_params(self, config: SingleConfig) -> dict[str, Any]:
        options: dict[str, Any] = super().httpx_params(config)
        self.context: ssl.SSLContext = options["verify"]
        self.context.verify_flags |= ssl.VERIFY_X509_STRICT
        return options


def test_an_authority_without_key_identifiers_is_accepted_and_everything_else_checked() -> None:
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = KubeConfig.from_dict(
        {
            "clusters": [{"name": "c", "cluster": {"server": "https://cluster.example"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [context],
            "current-context": "c",
        }
    ).get()
    assert config is not None
    parameters = StrictParameters()
    asyncio.run(http_client(config, parameters).aclose())
    assert not parameters.context.verify_flags & ssl.VERIFY_X509_STRICT
    assert parameters.context.verify_mode == ssl.CERT_REQUIRED
    assert parameters.context.check_hostname
