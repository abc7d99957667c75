"""The exceptions of this package, with one base class. `api_errors` has one per error code."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentjobs_client.models.jobs import Job


class ClientError(Exception):
    """The base class of this package's exceptions."""


class ServiceUnreachable(ClientError):
    """No response: the address is wrong, or the service or the network is down."""


class TlsFailed(ServiceUnreachable):
    """No encrypted connection: the certificate is not trusted, or one side does not use TLS."""


class UnexpectedAnswer(ClientError):
    """A response that is not the service's, such as a proxy's error page."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class WaitTimeout(ClientError):
    """The job was not finished in time; it goes on. `job` is its last known state."""

    def __init__(self, job: "Job", timeout_seconds: float) -> None:
        super().__init__(f"{job.job_id} is still {job.status} after {timeout_seconds:g} s")
        self.job = job
        self.timeout_seconds = timeout_seconds


class ApiError(ClientError):
    """An error response of the service. `code` is stable, `message` says what to do next."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        request_id: str | None = None,
        details: Any = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.request_id = request_id
        self.details = details
        self.retry_after_seconds = retry_after_seconds

    def __str__(self) -> str:
        faults = self.details if isinstance(self.details, list) else []
        listed = "; ".join(
            f"{fault.get('field')}: {fault.get('message')}"
            for fault in faults
            if isinstance(fault, dict)
        )
        return f"{self.message} ({self.code}{': ' + listed if listed else ''})"
