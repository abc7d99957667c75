"""Changes that operators make on the dashboard, as the audit log names them."""

from collections.abc import Iterator
from contextlib import contextmanager

from agentjobs.organizations.audit import Actor, acting_as
from agentjobs.web.dashboard.request_context import PageRequest


@contextmanager
def acting_as_operator(request: PageRequest) -> Iterator[None]:
    """Members of the organization see that it was an operator of the service, not one of them."""
    viewer = request.viewer
    actor = Actor("operator", viewer.display_name, viewer.user_id, request.origin.address)
    with acting_as(actor):
        yield
