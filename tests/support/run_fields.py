"""The fields of a run that a step uses, in place of both contexts of a run."""

from types import SimpleNamespace
from typing import Self

from agentjobs.publishing.context import ServiceRun


class RunFields(SimpleNamespace):
    warn = ServiceRun.warn

    @property
    def service(self) -> Self:
        return self
