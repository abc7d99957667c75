"""The HTTP client of the Kubernetes API, for the credentials that this process finds."""

import ssl
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import yaml
from lightkube import AsyncClient
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core.exceptions import ConfigError
from lightkube.core.generic_client import BasicRequest, GenericAsyncClient, WatchDriver
from lightkube.types import OnErrorHandler, on_error_raise

from agentjobs_kubernetes.labels import MANAGER
from agentjobs_runtime.safe_text import single_line
from agentjobs_worker.sandbox.protocol import SandboxUnavailable

# For a single request; a watch has none.
_TIMEOUT_SECONDS = 15.0
# lightkube does not check what a kubeconfig contains, so these errors are not in words.
_SHAPE_ERRORS = (LookupError, TypeError, AttributeError, AssertionError, RecursionError)
_CONFIG_ERRORS = (
    *(ConfigError, yaml.YAMLError, OSError, ValueError, httpx2.InvalidURL),
    *_SHAPE_ERRORS,
)


def open_client(namespace: str) -> AsyncClient:
    """With the service account of the pod that this runs in, or KUBECONFIG.

    Raises SandboxUnavailable.
    """
    try:
        return _Client(namespace)
    except _CONFIG_ERRORS as error:
        reason = single_line(str(error))
        if isinstance(error, _SHAPE_ERRORS):
            reason = f"the kubeconfig is incomplete, or the file is not one ({reason})"
        raise SandboxUnavailable(
            f"there is no usable access to a Kubernetes cluster: {reason}. Run the worker in a "
            "pod with a service account, or set KUBECONFIG to the path of one file."
        ) from error


def _http_client(config: SingleConfig, conn_parameters: ConnectionParams) -> httpx2.AsyncClient:
    """Accepts the certificates that kubectl accepts.

    Since Python 3.13, authorities without key identifiers are refused by default, and some
    clusters have such a one.
    """
    options = conn_parameters.httpx_params(config)
    options["verify"].verify_flags &= ~ssl.VERIFY_X509_STRICT
    return httpx2.AsyncClient(**options)


class _Requests(GenericAsyncClient):
    AdapterClient = staticmethod(_http_client)

    async def watch(
        self, br: BasicRequest, on_error: OnErrorHandler = on_error_raise
    ) -> AsyncIterator[tuple[str, Any]]:
        """One request. The parent's sends the next one at once, however soon a watch ends."""
        del on_error
        driver: Any = WatchDriver(br, self._client.build_request)
        requests: Any = self
        response = await requests.send(driver.get_request(self._watch_timeout), stream=True)
        try:
            response.raise_for_status()
            async for line in response.aiter_lines():
                yield driver.process_one_line(line)
        finally:
            await response.aclose()


class _Client(AsyncClient):
    def __init__(self, namespace: str) -> None:
        # Instead of the parent's: only the class of `_client` differs.
        self._timeout = httpx2.Timeout(_TIMEOUT_SECONDS)
        parameters = ConnectionParams(timeout=self._timeout)
        self._client = _Requests(parameters, namespace=namespace, field_manager=MANAGER)
