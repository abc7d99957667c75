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
    """The job goes back to the queue and no attempt is spent: the worker drains, or lost its
    database."""


class Abandoned(msgspec.Struct, frozen=True):
    """The claim is lost, so another worker decides the outcome. Nothing is stored."""


Outcome = Completed | Failed | Cancelled | Released | Abandoned


class JobFailed(Exception):
    """A step of a run found out that the job fails, and with which code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
