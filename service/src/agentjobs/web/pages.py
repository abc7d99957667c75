"""Template environment and security headers shared by all HTML pages.

Templates autoescape, and by default pages load nothing external and run no script.
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
        # A running service keeps its templates while an upgrade replaces the files.
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
