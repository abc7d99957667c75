"""The form for a comment on a line: which line an address names, and the form below it."""

import re

import msgspec
from markupsafe import Markup

from agentjobs.pulls.pulls import Pull
from agentjobs.web.dashboard.pulls.threads import line_anchor
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.diff_rows import Place, Side
from agentjobs.web.dashboard.text.diff_view import DiffView

# The key of a file, the side and the number of a line, as in its anchor.
_LINE = re.compile("([0-9a-f]{10})([LR])([1-9][0-9]{0,8})")


class LineForm(msgspec.Struct, frozen=True):
    """`body` is what was entered before."""

    path: str
    side: Side
    line: int
    body: str = ""

    @property
    def place(self) -> Place:
        return self.side, self.line


def requested_form(request: PageRequest, view: DiffView) -> LineForm | None:
    """Reads the line from `comment`, or from the fields of a form without a script."""
    side = "L" if request.query_param("side") == "left" else "R"
    parts = request.query_param("file"), side, request.query_param("line")
    line = _LINE.fullmatch(request.query_param("comment") or "".join(parts))
    file = line and next((file for file in view.files if file.key == line[1]), None)
    if line is None or file is None:
        return None
    return LineForm(file.path, "left" if line[2] == "L" else "right", int(line[3]))


def shows_line(view: DiffView, form: LineForm) -> bool:
    """Whether the page of all files has the line."""
    lines = (line for file in view.files if file.path == form.path for line in file.lines)
    return any(form.place in line.places for line in lines)


async def render_form(request: PageRequest, pull: Pull, view: DiffView, form: LineForm) -> Markup:
    file = next((file for file in view.files if file.path == form.path), None)
    html = await request.fragment(
        "pulls/line_form.html",
        pull=pull,
        form=form,
        anchor="" if file is None else line_anchor(file, form.place),
    )
    # A template escapes its values.
    return Markup(html)  # noqa: S704
