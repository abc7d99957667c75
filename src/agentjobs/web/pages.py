"""What all pages for people have in common: how they are rendered, and what a browser may do.

Everything is escaped, nothing loaded from outside, no script runs. Knows no page.
"""

from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined

SAFETY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def template_environment(package: str) -> Environment:
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        # A running service keeps what it began with, whatever an upgrade writes beside it.
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
