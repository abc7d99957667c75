"""uvicorn's HTTP protocol, so that even bytes that are no HTTP get the one error shape."""

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from agentjobs.problems import Problem
from agentjobs.web.api.errors import error_response
from agentjobs.web.envelope import new_request_id


class HttpProtocol(HttpToolsProtocol):
    """For `uvicorn.Config(http=HttpProtocol)`; such a request never reaches the application."""

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's name for it
        request_id = new_request_id()
        problem = Problem("bad_request", "This is not a valid HTTP request; send it again as one.")
        response = error_response(problem, request_id.decode())
        headers = [
            *self.server_state.default_headers,
            *response.raw_headers,
            (b"x-request-id", request_id),
            (b"connection", b"close"),
        ]
        head = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(STATUS_LINE[400] + head + b"\r\n" + bytes(response.body))
        self.transport.close()
