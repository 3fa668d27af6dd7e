"""Whether a wheel and a source archive hold what they should: `python release/check_dist.py dist`."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 4e6  # bytes of the wheel
SOURCE = ("src/latentbits/__init__.py", "tests/conftest.py", "docs/conf.py", "examples/GALLERY_HEADER.rst", "Makefile")
SOURCE += ("LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md")
SOURCE += ("release/try_wheel.py", "release/recipe.yaml", ".github/workflows/ci.yml", "package-lock.json")


def main(folder: Path) -> int:
    """Print what is wrong, and count it."""
    wheels, archives = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if (len(wheels), len(archives)) != (1, 1):
        sys.exit(f"{folder}: one wheel and one source archive are expected")
    wrong = [*of_wheel(wheels[0]), *of_source(archives[0])]
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    size = wheels[0].stat().st_size / 1e6
    print(f"{wheels[0].name}: {size:.1f} MB; {archives[0].name}: {archives[0].stat().st_size / 1e6:.1f} MB")
    return len(wrong)


def of_wheel(path: Path) -> list[str]:
    """The package with its data, nothing beside it, a description whose links are whole."""
    with zipfile.ZipFile(path) as wheel:
        held = {name for name in wheel.namelist() if not name.endswith("/")}
        text = next(wheel.read(name).decode() for name in held if name.endswith(".dist-info/METADATA"))
    wrong = [f"the wheel lacks {name}" for name in sorted(packaged() - held)]
    beside = sorted(name for name in held - packaged() if ".dist-info/" not in name)
    wrong += [f"the wheel holds {name}" for name in beside]
    wrong += [f"a link of the description leads nowhere: {link}" for link in relative_links(text)]
    if path.stat().st_size > LARGEST:
        wrong.append(f"the wheel has {path.stat().st_size} bytes, more than {LARGEST:.0f}")
    return wrong


def packaged() -> set[str]:
    """What a wheel holds of the package: all but the figures of full runs, which are for the docs."""
    found = (path.relative_to(ROOT / "src") for path in (ROOT / "src" / "latentbits").rglob("*") if path.is_file())
    return {
        path.as_posix()
        for path in found
        if "__pycache__" not in path.parts and not path.match("papers/*/results/*.png") and path.name[0] != "."
    }


def of_source(path: Path) -> list[str]:
    """What is needed to test, to document and to release from it."""
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    return [f"the source archive lacks {name}" for name in SOURCE if name not in held]


def relative_links(markdown: str) -> list[str]:
    """Targets of links and pictures that have no host; code is no text."""
    text = re.sub(r"^```.*?^```$|^    .*?$|`[^`\n]+`", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return [link for link in re.findall(r"\]\(\s*([^)\s]+)", text) if not re.match(r"https?://|mailto:", link)]


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1])) else 0)
