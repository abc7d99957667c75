"""Everything that opens TLS connections trusts the certificates of `ca_file`."""

import re

from tests.support.paths import PROJECT

SOURCE = PROJECT / "src/agentjobs"
CLIENT = re.compile(
    r"\b(ClientSession|TCPConnector|create_default_context|SSLContext|HTTPSConnection|urlopen"
    r"|httpx\.(Async)?Client|OTLPSpanExporter)\("
)
# Each of them gets its certificates from `load_tls_context` or `certificates_of`.
ALLOWED = {
    "cli/doctor/public_url.py",
    "outbound/guard/sessions.py",
    # Accepts one certificate only, which the worker made itself.
    "sandbox/kubernetes/dial.py",
    "tracing/otlp_export.py",
}


def test_no_module_makes_a_client_that_ignores_the_operators_certificates() -> None:
    modules = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if CLIENT.search(path.read_text())
    }
    assert modules == ALLOWED
