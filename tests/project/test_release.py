"""What a release is made of agrees: metadata, README, recipe, citation, notebook, oldest versions."""

from __future__ import annotations

import json
import re
import tomllib

import blocks
import pytest
import yaml
from blocks import ROOT, script
from printed import same_but_for_the_last_digit

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
RECIPE = yaml.safe_load((ROOT / "release" / "recipe.yaml").read_text("utf-8"))
README = (ROOT / "README.md").read_text("utf-8")


def shown():
    """README.md as the package index shows it: what the build's hook makes of it."""
    text = README
    for one in PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(one["pattern"], one["replacement"], text)
    return text


def test_the_description_has_no_link_that_leads_nowhere():
    relative = script("release/check_dist.py").relative_links
    assert relative("[a](docs/a.md) ![b\nc](b.png) `[c](d)`\n\n    [e](f)\n\n[g](#h)") == ["docs/a.md", "b.png", "#h"]
    assert len(relative(README)) > 10
    assert relative(shown()) == []
    assert shown().count("](") == README.count("](")  # no link is lost
    assert re.search(r"!\[[^\]]+\]\(https://raw\.\S+/docs/_static/explorer/digits\.png\)", shown())


def test_links_of_the_repository_lead_to_files():
    for page in ("README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md"):
        for link in script("release/check_dist.py").relative_links((ROOT / page).read_text("utf-8")):
            assert (ROOT / link.partition("#")[0]).is_file(), (page, link)


def test_every_address_is_that_of_the_project():
    urls = PROJECT["urls"]
    home, site = urls["Source"], urls["Documentation"]
    raw = home.replace("github.com", "raw.githubusercontent.com")
    assert urls["Issues"] == f"{home}/issues"
    assert urls["Changelog"] == f"{site}changelog.html"
    links = re.findall(r"\]\((https?://\S+?)\)", shown())
    ours = [link for link in links if "latentbits" in link]
    assert len(ours) > 10
    assert all(link.startswith((f"{home}/", site, f"{raw}/")) for link in ours)
    about = RECIPE["about"]
    assert (about["homepage"], about["repository"], about["documentation"]) == (urls["Homepage"], home, site)


def test_every_python_has_a_classifier():
    minors = [
        int(one) for one in re.findall(r":: Python :: 3\.(\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    ]
    assert PROJECT["requires-python"] == f">=3.{minors[0]}"
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert "Typing :: Typed" in PROJECT["classifiers"]
    assert (ROOT / "src" / "latentbits" / "py.typed").is_file()
    for words in ("logistic PCA", "latent class analysis", "restricted Boltzmann machine", "item response theory"):
        assert words in PROJECT["keywords"]


def test_one_version_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert PROJECT["version"] == citation["version"] == RECIPE["context"]["version"]
    assert citation["license"] == RECIPE["about"]["license"] == PROJECT["license"]


def test_the_recipe_requires_what_the_wheel_does():
    def spaced(requirements):
        return [re.sub(r"(?<=[\w-])(?=>=)", " ", one) for one in requirements]

    python = f"python {PROJECT['requires-python']}"
    assert RECIPE["requirements"]["run"] == [python, *spaced(PROJECT["dependencies"])]
    assert RECIPE["requirements"]["host"] == [python, "pip", *spaced(PYPROJECT["build-system"]["requires"])]
    name, entry = next(iter(PROJECT["scripts"].items()))
    assert RECIPE["build"]["python"]["entry_points"] == [f"{name} = {entry}"]
    assert RECIPE["about"]["summary"] == PROJECT["description"]


def test_the_oldest_versions_are_the_lower_bounds():
    lowest = script("release/lowest.py").lowest
    extras = {"dask": [], "tables": ["f>=4.5.6"], "plot": [], "rotate": []}
    some = {"dependencies": ["a>=1.2", "b-c[d,e]>=3"], "optional-dependencies": extras}
    assert lowest(some) == ["a==1.2", "b-c==3", "f==4.5.6"]
    with pytest.raises(ValueError, match="no name with a lower bound"):
        lowest({**some, "dependencies": ["a"]})
    assert len(lowest(PROJECT)) > len(PROJECT["dependencies"])


def test_the_try_of_a_wheel_finds_the_commands_of_the_readme():
    wheel = script("release/try_wheel.py")
    found = wheel.commands(shown())
    assert "latentbits data" in found
    assert "latentbits explore" in found  # on the bundled digits
    assert "latentbits explore votes.csv --labels party" in found
    assert "latentbits fit answers.csv -k 3 --restarts 20 -o m.safetensors" in found
    assert not [line for line in found if "#" in line or "COMMAND" in line]
    asked = set(
        re.findall(r"\blatentbits ([a-z]+)\b", "\n".join(re.findall(r"^    latentbits .*", README, re.MULTILINE)))
    )
    assert asked <= {line.split()[1] for line in found}
    assert len(wheel.python_blocks(shown())) == README.count("```python")
    assert wheel.subcommands(
        "x\n\nCommands:\n  fit    Learn it\n         well.\n  data   List.\n\n  Start with: x\n"
    ) == ["fit", "data"]


def test_the_notebook_is_the_page():
    notebook = script("docs/notebook.py")
    text = notebook.NOTEBOOK.read_text("utf-8")
    assert text == notebook.written(), "run: python docs/notebook.py"
    cells = json.loads(text)["cells"]
    assert [cell["outputs"] for cell in cells if cell["cell_type"] == "code"] == [[]] * text.count('"code"')
    prose = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert not re.search(r"\{\w+(:\w+)?\}`|<!--|^\(.*\)=", prose, re.MULTILINE)  # nothing that only Sphinx knows
    assert "## Which model?" in prose


@pytest.mark.slow("the quick start, in a separate kernel")
def test_the_notebook_runs(tmp_path, monkeypatch):
    """In a separate kernel, from top to bottom, and so the page whose it is; each cell prints what the page says."""
    import nbclient
    import nbformat

    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # kernels warn of frozen modules
    book = nbformat.read(ROOT / "docs" / "quickstart.ipynb", as_version=4)
    nbformat.validate(book)
    nbclient.NotebookClient(book, timeout=1800, resources={"metadata": {"path": str(tmp_path)}}).execute()
    expected = {block.strip(): text for block, text in blocks.printed(blocks.NOTEBOOK).items()}
    out = {cell.source.strip(): "".join(one.get("text", "") for one in cell.get("outputs", [])) for cell in book.cells}
    assert expected.keys() <= out.keys()
    assert {block for block, text in expected.items() if not same_but_for_the_last_digit(out[block], text)} == set()
    assert "{'n_components': 2}" in "".join(out.values())
    assert (tmp_path / "pupils.safetensors").is_file()
