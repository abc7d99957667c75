"""One exception per error code."""

import pytest

import agentjobs_client
from agentjobs.web.api.error_codes import API_ERRORS
from agentjobs_client import ApiError, JobNotFound, MethodNotAllowed, NotFound, NotSupported
from agentjobs_client.api_errors import BY_CODE
from service.tests.unit.client.test_calls import Caller, fake_service, refusal


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def caller(request):
    return Caller(request.param)


def test_every_error_code_of_the_service_has_an_exception():
    assert sorted(API_ERRORS.keys() - BY_CODE.keys()) == []


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_an_exception_is_named_after_its_code_and_exported(code):
    kind = BY_CODE[code]
    assert kind.__name__ == "".join(part.capitalize() for part in code.split("_"))
    assert getattr(agentjobs_client, kind.__name__) is kind
    assert kind.__name__ in agentjobs_client.__all__
    assert issubclass(kind, ApiError)


def test_the_exception_of_a_code_is_raised(caller):
    handle, _ = fake_service(refusal(404, "job_not_found"))
    with pytest.raises(JobNotFound, match="Do this next") as caught:
        caller.call(handle, "job", "job_1")
    assert (caught.value.code, caught.value.status) == ("job_not_found", 404)


def test_a_code_of_a_newer_service_is_an_api_error(caller):
    handle, _ = fake_service(refusal(418, "teapot"))
    with pytest.raises(ApiError) as caught:
        caller.call(handle, "agents")
    assert type(caught.value) is ApiError
    assert caught.value.code == "teapot"


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [(404, "not_found", NotFound), (405, "method_not_allowed", MethodNotAllowed)],
)
def test_an_older_service_without_the_endpoint_is_named(caller, status, code, kind):
    handle, requests = fake_service(refusal(status, code))
    with pytest.raises(NotSupported, match=r"does not have POST /v1/jobs/job_1/retry") as caught:
        caller.call(handle, "retry", "job_1")
    assert type(caught.value) is kind
    assert f"older than this client ({agentjobs_client.__version__})" in str(caught.value)
    assert len(requests) == 1
