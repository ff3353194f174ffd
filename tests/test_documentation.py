"""What the documentation shows, runs; what it links to and names, exists."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import reluplan
from reluplan.errors import MissingExtraError
from shared_data import ROOT

SOURCES = ROOT / "src" / "reluplan"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "benchmarks").glob("*.md"), *(ROOT / "docs").rglob("*.md")])
"""README, CHANGELOG, CONTRIBUTING, and everything in docs and benchmarks."""
OPTIONAL = {
    "cplex", "gurobipy", "gymnasium", "keras", "matplotlib", "pyRDDLGym", "pyarrow", "pyscipopt", "rddlrepository",
    "sklearn", "torch",
}  # fmt: skip
"""Packages of the extras; a module that needs one at its import is skipped where it is missing."""


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


# Examples


def test_the_python_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("optimal\n")


def modules() -> list[str]:
    """Every module of the package but those that are programs."""
    found = [module.name for module in pkgutil.walk_packages(reluplan.__path__, "reluplan.")]
    return ["reluplan", *(name for name in found if not name.endswith("__main__"))]


def missing_package(error: BaseException | None) -> str | None:
    """Why an error is about an optional package that is not installed; None if it is about anything else."""
    if isinstance(error, MissingExtraError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in OPTIONAL:
        return f"the package '{error.name}' is not installed"
    return None


def has_examples(name: str) -> bool:
    """Whether the source of a module has any example; importing it to find out would need its extras."""
    path = SOURCES.joinpath(*name.split(".")[1:])
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ">>> " in source.read_text(encoding="utf-8")


def test_there_are_examples_in_docstrings() -> None:
    assert len([name for name in modules() if has_examples(name)]) > 10


@pytest.mark.parametrize("name", [name for name in modules() if has_examples(name)])
def test_the_examples_of_docstrings_run(name: str) -> None:
    try:
        module = importlib.import_module(name)
        tests = [test for test in doctest.DocTestFinder().find(module, name) if test.examples]
        assert tests, f"the examples of {name} are in no docstring that doctest finds"
        for test in tests:
            doctest.DebugRunner(verbose=False).run(test)
    except doctest.DocTestFailure as failure:
        example = failure.example
        pytest.fail(f"{failure.test.name}: {example.source}expected {example.want!r}, got {failure.got!r}")
    except doctest.UnexpectedException as failure:
        skip_or_raise(failure.exc_info[1])
    except (ImportError, MissingExtraError) as error:
        skip_or_raise(error)


def skip_or_raise(error: BaseException) -> None:
    """Examples of optional packages need not run where these are missing; all else is a failure."""
    reason = missing_package(error)
    if reason is None:
        raise error
    pytest.skip(reason)


# Links and names


def prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "`code`", text)


def links(page: Path) -> Iterator[str]:
    """The targets of the relative links of a page."""
    for target in re.findall(r"\]\(([^()\s]+)\)", prose(page)):
        if not re.match(r"[a-z]+:", target):
            yield target


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings of a page: small letters, spaces to hyphens, other marks dropped."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target in links(page):
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        if not place.exists() or (anchor and anchor not in anchors(place)):
            broken.append(target)
    assert not broken


def test_every_page_is_reachable_from_the_readme() -> None:
    seen, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen and page.suffix == ".md":
            seen.add(page)
            waiting += [
                (page.parent / target.partition("#")[0]).resolve() for target in links(page) if target[0] != "#"
            ]
    assert set(PAGES) <= seen


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_of_ours_that_is_named_exists(page: Path) -> None:
    """`bounds/crown.py` is a module of the package, `benchmarks/bounds.py` a file of the repository."""
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"(?<![\w./])((?:[\w]+/)+\w+\.py)\b", text)
    assert not [name for name in named if not ((ROOT / name).is_file() or (SOURCES / name).is_file())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_folder_of_ours_that_is_named_exists(page: Path) -> None:
    named = re.findall(r"`((?:[\w]+/)+)`", page.read_text(encoding="utf-8"))
    unknown = [name for name in named if not ((ROOT / name).is_dir() or (SOURCES / name).is_dir())]
    assert set(unknown) <= {"dnn/", "translation/"}, "these two are folders of HD-MILP-Plan"
