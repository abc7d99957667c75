"""Raises other pins of a requirements file if a fix needs it: to the lowest version that fits, with
the same major version."""

from agentjobs_dependencies.fixes.markdown import code, escape
from agentjobs_dependencies.fixes.model import Fix
from agentjobs_dependencies.fixes.python import pip_compile, requirement_text
from agentjobs_dependencies.fixes.python.pip_compile import Setting
from agentjobs_dependencies.fixes.python.requirement_lines import relax_pins, update_pin
from agentjobs_dependencies.versions.pypi import is_same, normalize_name


def raise_connected_pins(text: str, fix: Fix, setting: Setting) -> tuple[str, list[str]]:
    """The text with other pins raised, and what changed. `text` has the new version already.

    Raises CannotFix if no versions fit.
    """
    options = ["--resolution=lowest-direct"]
    options += ["--generate-hashes"] if "--hash=" in text else []
    resolved = pip_compile.resolve(
        relax_pins(text, keep=fix.package), setting.others_after, fix, setting.pythons[0], *options
    )
    new_pins, blocks = requirement_text.pins(resolved), requirement_text.blocks(resolved)
    changes = []
    for name, old in requirement_text.pins(text).items():
        new = new_pins.get(name, old)
        if name == normalize_name(fix.package) or is_same(old, new):
            continue
        hashes = requirement_text.hashes(blocks[name])
        text = update_pin(text, Fix("PyPI", fix.manifest, name, old, new, hashes=hashes))
        changes.append(
            f"{code(name)} {escape(old)} → {escape(new)}, because {code(fix.package)} "
            f"{escape(fix.new)} needs it."
        )
    return text, changes
