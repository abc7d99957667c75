"""The demo's repository: a small Python project with lint problems."""

from pathlib import Path

from agentjobs_runtime.git.process import git

FULL_NAME = "demo/shop"
BRANCH = "main"

FILES = {
    "README.md": "# Shop\n\nA sample project for the agentjobs demo.\n",
    "shop/__init__.py": "",
    "shop/cart.py": """\
import os, sys
from decimal import Decimal
import json


class Cart :
    def __init__( self ):
        self.lines = { }

    def add(self, article, price, count = 1):
        self.lines[article] = ( Decimal( price ), count )

    def total(self):
        return sum( [ price*count for price,count in self.lines.values() ] )
""",
    "shop/receipt.py": """\
from shop.cart import Cart
import datetime


def print_receipt(cart : Cart):
    print(f"Your receipt")
    for article,(price,count) in cart.lines.items():
        print(f"{count:>3} x {article:<20} {price:>8}")
    print( 'total', cart.total() )
""",
}

_AUTHOR = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "Demo"), ("EMAIL", "demo@localhost"))
}


async def make_repository(directory: Path) -> None:
    for name, text in FILES.items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    await git("init", "--quiet", f"--initial-branch={BRANCH}", str(directory))
    git_dir = directory / ".git"
    await git("add", "--all", git_dir=git_dir, work_tree=directory, cwd=directory)
    await git(
        "commit",
        "--quiet",
        "--message=A small shop",
        git_dir=git_dir,
        work_tree=directory,
        cwd=directory,
        environment=_AUTHOR,
    )
