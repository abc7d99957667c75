"""Everything that opens TLS connections trusts the certificates of `ca_file`."""

import re

from tests.support.paths import SOURCES

CLIENT = re.compile(
    r"\b(ClientSession|TCPConnector|create_default_context|SSLContext|HTTPSConnection|urlopen"
    r"|httpx\.(Async)?Client|OTLPSpanExporter)\("
)
# Each of them gets its certificates from `load_tls_context` or `prepare_certificates`.
ALLOWED = {
    "agentjobs/cli/doctor/public_url.py",
    "agentjobs_runtime/outbound/guard/sessions.py",
    # Accepts one certificate only, which the worker made itself.
    "agentjobs_kubernetes/dial.py",
    "agentjobs_runtime/tracing/otlp_export.py",
}


def test_no_module_makes_a_client_that_ignores_the_operators_certificates() -> None:
    modules = {
        str(path.relative_to(source))
        for source in SOURCES
        if source.parent.name != "dependencies"
        for path in source.rglob("*.py")
        if CLIENT.search(path.read_text())
    }
    assert modules == ALLOWED
