"""A headless browser: keeps cookies, finds the forms of a page and submits them."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
from starlette.types import ASGIApp

ADDRESS = "http://127.0.0.1:8080"
# Part of every untrusted text.
PAYLOAD = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
_VOID_VALUES = {"checkbox": "on", "radio": "on"}


@dataclass
class Form:
    action: str
    method: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    # The values of select fields, checkboxes and radio buttons.
    choices: dict[str, list[str]] = field(default_factory=dict)
    button: str = ""

    def value(self, name: str) -> str:
        return next((value for field_name, value in self.fields if field_name == name), "")


class _Reader(HTMLParser):
    """The forms, links and text of a page; tags and attributes as a browser parses them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.text_parts: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._select: str | None = None
        self._textarea: str | None = None
        self._hidden_depth = 0
        self._in_form = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        name = attributes.get("name") or ""
        if tag == "form":
            self.forms.append(
                Form(attributes.get("action") or "", (attributes.get("method") or "get"))
            )
            self._in_form = True
        elif tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"] or "")
        elif tag in {"script", "style"}:
            self._hidden_depth += 1
        elif self._in_form and tag == "input" and name:
            self._input(name, attributes)
        elif self._in_form and tag == "select":
            self._select = name
            self.forms[-1].choices[name] = []
        elif self._in_form and tag == "option" and self._select:
            value = attributes.get("value") or ""
            if "disabled" not in attributes:
                self.forms[-1].choices[self._select].append(value)
            if "selected" in attributes:
                self.forms[-1].fields.append((self._select, value))
        elif self._in_form and tag == "textarea":
            self._textarea = name
            self.forms[-1].fields.append((name, ""))

    def _input(self, name: str, attributes: dict[str, str | None]) -> None:
        kind = attributes.get("type") or "text"
        value = attributes.get("value") or _VOID_VALUES.get(kind, "")
        if kind in _VOID_VALUES:
            self.forms[-1].choices.setdefault(name, []).append(value)
            if "checked" not in attributes:
                return
        self.forms[-1].fields.append((name, value))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._in_form = False
        elif tag in {"script", "style"}:
            self._hidden_depth -= 1
        elif tag == "select" and self._select:
            form = self.forms[-1]
            if not form.value(self._select) and form.choices[self._select]:
                chosen = [value for name, value in form.fields if name == self._select]
                if not chosen:
                    form.fields.append((self._select, form.choices[self._select][0]))
            self._select = None
        elif tag == "textarea":
            self._textarea = None

    def handle_data(self, data: str) -> None:
        if self._textarea is not None:
            form = self.forms[-1]
            name, value = form.fields[-1]
            form.fields[-1] = (name, (value + data).removeprefix("\n"))
        if not self._hidden_depth:
            self.text_parts.append(data)


class Page:
    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.status = response.status_code
        self.html = response.text
        self.path = response.request.url.raw_path.decode()
        reader = _Reader()
        reader.feed(self.html)
        self.forms, self.links, self.tags = reader.forms, reader.links, reader.tags
        self.text = " ".join(" ".join(reader.text_parts).split())

    def form(self, action: str) -> Form:
        """The only form whose action ends with `action`, apart from the filters of a list."""
        matching = [form for form in self.forms if urlsplit(form.action).path.endswith(action)]
        if len(matching) > 1:
            matching = [form for form in matching if form.method == "post"]
        assert len(matching) == 1, (
            f"{len(matching)} forms to {action} on {self.path}: {self.text[:300]}"
        )
        return matching[0]

    def has_form(self, action: str) -> bool:
        """Whether a form changes something there."""
        return any(
            form.method == "post" and urlsplit(form.action).path.endswith(action)
            for form in self.forms
        )

    def is_safe(self) -> bool:
        """Whether no untrusted text became a tag or an event handler."""
        scripts = [attributes for tag, attributes in self.tags if tag == "script"]
        handlers = [
            name for _, attributes in self.tags for name in attributes if name.startswith("on")
        ]
        styles = [attributes for _, attributes in self.tags if "style" in attributes]
        sources = [attributes.get("src") for tag, attributes in self.tags if tag == "img"]
        return (
            all((attributes.get("src") or "").startswith("/static/") for attributes in scripts)
            and all(_is_own_picture(source or "") for source in sources)
            and not handlers
            and not styles
            and not any(tag == "style" for tag, _ in self.tags)
        )


def _is_own_picture(source: str) -> bool:
    return re.fullmatch(r"/static/.*|/jobs/job_\w+/artifacts/[\w.-]+", source) is not None


class Browser:
    def __init__(self, app: ASGIApp, token: str | None = None, name: str = "") -> None:
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app, client=("127.0.0.1", 4321)),
            base_url=ADDRESS,
            headers={"Accept": "text/html", "User-Agent": "a test"},
        )
        if token is not None:
            self.http.cookies.set("agentjobs-session-8080", token, domain="127.0.0.1", path="/")
        self.name = name

    async def open(self, path: str, **options: Any) -> Page:
        """Follows redirects inside the service, as a browser does."""
        return Page(await self.http.get(path, follow_redirects=True, **options))

    async def open_twice(self, path: str) -> tuple[Page, Page]:
        """Open the page in two windows; a change in one makes the other stale."""
        return await self.open(path), await self.open(path)

    async def get(self, path: str, **options: Any) -> httpx.Response:
        """Does not follow redirects."""
        return await self.http.get(path, **options)

    async def send(self, page: Page, action: str, **values: Any) -> Page:
        """Fill in the form with this action and submit it; a list repeats a field."""
        form = page.form(action)
        fields = [(name, value) for name, value in form.fields if name not in values]
        for name, value in values.items():
            many = value if isinstance(value, list) else [value]
            fields += [(name, each) for each in many if each is not None]
        target = urljoin(f"{ADDRESS}{page.path}", form.action)
        if form.method.lower() == "get":
            return Page(await self.http.get(target, params=fields, follow_redirects=True))
        return await self.post(target, fields, Referer=f"{ADDRESS}{page.path}")

    async def post(self, target: str, fields: list[tuple[str, str]], **headers: str) -> Page:
        body = str(httpx.QueryParams(fields))
        sent = {
            "Origin": ADDRESS,
            "Content-Type": "application/x-www-form-urlencoded",
            **headers,
        }
        response = await self.http.post(target, content=body, headers=sent, follow_redirects=True)
        return Page(response)

    async def close(self) -> None:
        await self.http.aclose()
