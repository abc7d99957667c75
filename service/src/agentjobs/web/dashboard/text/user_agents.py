"""Says what a User-Agent header means, such as Chrome on Linux."""

# Most browsers also name those that they are compatible with, so the first match counts.
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("Windows", "Windows"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def describe_user_agent(text: str) -> str:
    """The header itself if it names no known browser."""
    browser = _find(text, _BROWSERS)
    if not browser:
        return text or "Unknown browser"
    system = _find(text, _SYSTEMS)
    return f"{browser} on {system}" if system else browser


def _find(text: str, names: tuple[tuple[str, str], ...]) -> str:
    return next((name for part, name in names if part in text), "")
