"""How a run of a job can end, as values: returned by `run`, stored by `queue/finish`."""

import msgspec


class Completed(msgspec.Struct, frozen=True):
    pr_url: str
    pr_number: int
    head_commit: str
    draft: bool


class Failed(msgspec.Struct, frozen=True):
    code: str
    message: str


class Cancelled(msgspec.Struct, frozen=True):
    """The client cancelled the job."""


class Released(msgspec.Struct, frozen=True):
    """The job is requeued without spending an attempt: the worker drains, or its database is
    unavailable."""


class Abandoned(msgspec.Struct, frozen=True):
    """The claim is lost, so another worker decides the outcome. Nothing is stored."""


Outcome = Completed | Failed | Cancelled | Released | Abandoned


class JobFailed(Exception):
    """Raised by a step of a run to fail the job with a code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
