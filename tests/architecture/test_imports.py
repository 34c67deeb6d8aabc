"""Imports point down only, and what stands below works without what stands above."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

IMPORT_ALL = """
import importlib, pkgutil, sys

package, forbidden, optional = sys.argv[1], sys.argv[2].split(","), sys.argv[3].split(",")

class Guard:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in forbidden:
            raise AssertionError(f"{name} is imported")

sys.meta_path.insert(0, Guard())
found = importlib.import_module(package)
for module in pkgutil.walk_packages(found.__path__, package + "."):
    if not module.name.startswith(tuple(optional)):
        importlib.import_module(module.name)
        print(module.name)
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True)


def test_the_import_contracts_hold() -> None:
    lint = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    result = run("-c", lint)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("package", "forbidden", "optional"),
    [
        ("bandwidth_model", "localchat,router,textual,httpx,llama_cpp,llguidance", "-"),
        # The client of the cloud may need HTTP; deciding and the local path may not.
        ("router", "localchat,textual,httpx,llama_cpp,llguidance", "router.cloud.client,router.simcloud"),
    ],
)
def test_a_lower_package_stands_alone(package: str, forbidden: str, optional: str) -> None:
    result = run("-c", IMPORT_ALL, package, forbidden, optional)
    assert result.returncode == 0, result.stderr
    assert f"{package}." in result.stdout
