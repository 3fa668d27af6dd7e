"""Names of columns, rows, labels and files that are markup, escapes, formulas or nothing at all, through the tool.

Whatever a user calls a thing is text: on the terminal, in files, on the page and in figures.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz.verdict import Case, Fault

__all__ = ["foreign_tags", "run"]

ATOMS = (
    "income[low]", "a[/b]", "[bold]x", "[link=http://a]x[/link]", "[/]", "[red]", "\\[x]", ":smile:", "x[0]",
    "\x1b[31mred", "\x1b]0;title\x07", "\x1b]8;;http://a\x1b\\x", "\x9b31m", "\x07bell", "\x08back",
    "a\rb", "a\x01",
    "$\\frac{$", "$x$", "$\\undefined$", "a_b^c", "\\LaTeX", "%s %d {0}", "{name}",
    "a\nb", "a\tb", "\n\nx", "=1+1", "+1", "-x", "@SUM(A1)", "=cmd|'/C calc'!A0", "'q", '"q"', 'a""b',
    "a,b", "a;b", "`x`",
    "<zzfuzz>", "</script><zzfuzz onzz=1>", "<!--<zzfuzz>", "]]><zzfuzz>", "'\"><zzfuzz>", "&lt;zzfuzz&gt;", "&amp;",
    "<img src=zz onerror=zzfuzz>", "javascript:zzfuzz", "\u2028", "\u202egnirts", "\u2066x", "é",
    "日本語", "🙂", "e\u0301",
    "\ufeffx", "ａ", "²", "\u00a0x", "x" * 300, "NA", "nan", "null", "None", "True", "0", "1", "1e5", "-0",
    "column 0", "__proto__",
    "constructor", "a b  c", "..", "/etc/passwd", "C:\\x", "x\u200b", "ß", "İ", "\ud7ff", "\U0010ffff",
)  # fmt: skip
TABLE = ((1, 1, 0, 0, 1), (0, 0, 1, 1, 0), (1, 1, 0, 1, 1), (0, 1, 1, 1, 0), (1, 0, 0, 0, 0), (0, 0, 1, 0, 1)) * 5
MODELS = ("latent-trait", "latent-trait", "combination-machine", "noisy-or", "clipped-gaussian", "mixture", "product")
SMALL = {"noisy-or": ("--layers", "2"), "product": ()}


def run(case: Case) -> str:
    ways = [_fit] * 8 + [_apply] * 4 + [_refusal] * 3 + [_labels] * 2 + [_file_name] * 2
    ways += [] if case.light else [_explore, _process]
    with _inside(case.folder, case.shared):
        return case.pick(*ways)(case)


@contextmanager
def _inside(folder: Path, shared: Path) -> Iterator[None]:
    before, kept = os.getcwd(), dict(os.environ)
    os.environ.setdefault("LATENTBITS_CACHE", str(shared / "cache"))
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(kept)


def some_name(case: Case) -> str:
    return "".join(case.pick(*ATOMS) for _ in range(case.pick(1, 1, 1, 2)))


def some_names(case: Case, n: int = 5) -> list[str]:
    """Names that differ, stripped as a csv file's are; not all of them numbers, since that is no header."""
    names = ["plain"]
    while len(names) < n:
        name = some_name(case).strip()
        if name and name not in names:
            names.append(name)
    case.say(f"names {names}")
    return names


def write_table(path: Path, names: Sequence[str], rows: Sequence[Sequence[Any]] = TABLE) -> Path:
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = [pa.array(column) for column in zip(*rows)]
        pq.write_table(pa.table(columns, names=list(names)), path)
        return path
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)
    return path


def tool(case: Case, *arguments: Any, good: bool | None = None) -> Any:
    """The tool in this process; no traceback, no control character, an `error:` line where it fails."""
    from click.testing import CliRunner

    from latentbits.cli.main import cli

    words = [str(a) for a in arguments]
    case.say("latentbits " + " ".join(words))
    result = CliRunner().invoke(cli, words, env={"COLUMNS": "2000"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    judge(case, result.exit_code, result.stdout, result.stderr)
    if good is True and result.exit_code:
        raise Fault("exit 0", f"exit {result.exit_code}: {result.stderr[-400:]}")
    if good is False and not result.exit_code:
        raise Fault("a refusal", "exit 0")
    return result


def judge(case: Case, code: int, stdout: str, stderr: str) -> None:
    if code not in (0, 1, 2):
        raise Fault("exit 0, 1 or 2", f"exit {code}: {stderr[-400:]}")
    if "Traceback (most recent" in stdout + stderr:
        raise Fault("no traceback", stderr[-600:])
    if code == 1 and "error: " not in stderr:
        raise Fault("a line error: ...", repr(stderr[-400:]))
    for stream, text in (("stdout", stdout), ("stderr", stderr)):
        controls = {c for c in text if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160}
        if controls:
            where = text.index(min(controls, key=text.index))
            raise Fault(f"no control character on {stream}", repr(text[max(0, where - 60) : where + 30]))


def _fit_arguments(case: Case, path: Path, model: str) -> list[Any]:
    return ["fit", path, "-m", model, *SMALL.get(model, ("-k", "1")), "--max-iter", "8"]


def _plain(name: str) -> bool:
    """Whether a name can stand on a terminal as it is."""
    return name.isprintable() and "  " not in name and not any("\u202a" <= c <= "\u2069" for c in name)


def _fit(case: Case) -> str:
    """What is printed holds every name as it is; so does JSON, and the table of items."""
    names = some_names(case)
    path = write_table(Path(case.pick("t.csv", "t.csv", "t.parquet")), names)
    model = case.pick(*(("mixture", "product") if case.light else MODELS))
    items = ["--items", "items.csv"] if model not in ("mixture", "product") and case.chance(0.4) else []
    as_json = case.chance(0.3)
    result = tool(case, *_fit_arguments(case, path, model), *items, *(["--json"] if as_json else []), good=True)
    if as_json:
        found = json.loads(result.stdout)
        shown = set(_texts(found))
        if model == "latent-trait" and not set(names) <= shown:
            raise Fault("every name in JSON", f"without {sorted(set(names) - shown)}")
    elif model == "latent-trait":
        absent = [name for name in names if _plain(name) and name not in result.stdout]
        if absent:
            raise Fault(f"the names {absent} in the table", result.stdout[:1500])
    if items:
        _same_names("items.csv", names, column=True)
    import latentbits

    kept = list(latentbits.load("model.safetensors").feature_names_in_)
    if kept != names:
        raise Fault(f"names {names} in the model", f"{kept}")
    return "result"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _same_names(path: str, names: Sequence[str], column: bool = False, skip: int = 0) -> None:
    """Names in a csv file that was written: as they are, or with a mark before a formula."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    found = [row[0] for row in rows[1:]] if column else rows[0][skip:]
    bare = [text[1:] if text not in names and text[:1] in "'\t" else text for text in found]
    if bare != list(names):
        raise Fault(f"names {list(names)} in {path}", f"{found}")
    formulas = [text for text in found if text[:1] in ("=", "@") or (text[:1] in "+-" and not _number(text))]
    if formulas:
        raise Fault(f"no cell that a spreadsheet would run in {path}", f"{formulas}")


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _apply(case: Case) -> str:
    """Fit, then score, transform, complete or sample, with the columns in another order."""
    names = some_names(case)
    rows = np.array(TABLE, float)
    path = write_table(Path("t.csv"), names)
    tool(
        case,
        *_fit_arguments(case, path, "mixture" if case.light else case.pick("mixture", "latent-trait")),
        "--json",
        good=True,
    )
    order = case.rng.permutation(len(names))
    holes = rows[:, order].astype(object)
    holes[0, 0] = ""
    if names[order[0]] == "":
        order = np.arange(len(names))
    other = write_table(Path("u.csv"), [names[j] for j in order], holes.tolist())
    command = case.pick("score", "transform", "complete", "sample")
    if command == "score":
        tool(case, "score", "model.safetensors", other, "--per-row", "rows.csv", good=True)
        return "result"
    source = [] if command == "sample" else [other]
    tool(case, command, "model.safetensors", *source, "-o", "out.csv", good=True)
    if command in ("complete", "sample"):
        _same_names("out.csv", names)
    return "result"


def _refusal(case: Case) -> str:
    """Columns that lack, are too many, twice, or hold text: an error that names them without harm."""
    names = some_names(case)
    way = case.pick("lacks", "twice", "text", "two")
    case.say(way)
    if way == "lacks":
        path = write_table(Path("t.csv"), names)
        tool(case, *_fit_arguments(case, path, "product"), good=True)
        other = write_table(Path("u.csv"), [*names[:-1], "another"])
        tool(case, "score", "model.safetensors", other, good=False)
    elif way == "twice":
        path = write_table(Path(case.pick("t.csv", "t.parquet")), [*names[:-1], names[1]])
        tool(case, *_fit_arguments(case, path, "product"), good=False)
    else:
        bad = "two" if way == "text" else 2
        rows = [list(row) for row in TABLE]
        rows[3][2] = some_name(case) if way == "text" and case.chance(0.5) else bad
        path = write_table(Path("t.csv"), names, rows)
        tool(case, *_fit_arguments(case, path, "product"), good=None if way == "text" else False)
    return "refused"


def _labels(case: Case) -> str:
    """Rows with names and groups of any text."""
    names = some_names(case)
    values = [some_name(case).strip() for _ in TABLE]
    kind = case.pick("", "group", some_name(case).strip() or "g")
    if kind in names:
        kind = "group"
    rows = [[value, *row] for value, row in zip(values, TABLE)]
    path = write_table(Path("t.csv"), [kind, *names], rows)
    label = ["--labels", case.pick(kind, "0", "²", "7", "nothing")] if kind else []
    fitted = tool(case, *_fit_arguments(case, path, "mixture"), *label)
    if fitted.exit_code:
        return "refused"
    tool(case, "complete", "model.safetensors", path, *label, "-o", "out.csv", good=True)
    _same_names("out.csv", names, skip=1)
    with open("out.csv", newline="", encoding="utf-8") as file:
        kept = [row[0] for row in list(csv.reader(file))[1:]]
    bare = [text[1:] if text != value and text[:1] in "'\t" else text for text, value in zip(kept, values)]
    if bare != values:
        raise Fault(f"the labels {values[:5]}", f"{kept[:5]}")
    return "result"


def _file_name(case: Case) -> str:
    """Files whose own names are markup or escapes."""
    stem = some_name(case).replace("/", "_").replace("\x00", "").strip(" .")[:60] or "x"
    path = write_table(Path(f"{stem}.csv"), list("abcde"))
    output = f"{stem}.safetensors" if not stem.startswith("-") else "m.safetensors"
    source = path if not stem.startswith("-") else Path(".") / path
    case.say(f"file {stem!r}")
    tool(case, "fit", f"./{source}", "-m", "product", "-o", f"./{output}", good=True)
    tool(case, "score", f"./{output}", f"./{source}", good=True)
    return "result"


# --- pages and processes ---


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "zzfuzz" or any("zzfuzz" in (value or "") and name.startswith("on") for name, value in attrs):
            self.foreign.append(self.get_starttag_text() or tag)
        if any(name == "href" and (value or "").startswith("javascript:") for name, value in attrs):
            self.foreign.append(self.get_starttag_text() or tag)


def foreign_tags(html: str) -> list[str]:
    """Elements of a page that came out of names."""
    parser = _Tags()
    parser.feed(html)
    return parser.foreign


def _explore(case: Case) -> str:
    names = some_names(case)
    path = write_table(Path("t.csv"), names)
    figures = ["--figures", "figures"] if case.chance(0.5) else []
    model = case.pick("mixture", "mixture", "latent-trait")
    result = tool(case, "explore", path, "--model", model, "--budget", "2s", "--out", "page.html", *figures)
    if result.exit_code:
        raise Fault("a page", f"exit {result.exit_code}: {result.stderr[-400:]}")
    found = foreign_tags(Path("page.html").read_text(encoding="utf-8"))
    if found:
        raise Fault("names as text on the page", f"elements {found[:3]}")
    return "result"


def _process(case: Case) -> str:
    """A separate process, on a terminal that knows ASCII or Latin-1 alone."""
    names = some_names(case)
    path = write_table(Path("t.csv"), names)
    terminal = case.pick(
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "utf-8"},
    )
    arguments = [str(a) for a in _fit_arguments(case, path, case.pick("latent-trait", "product"))]
    case.say(f"{terminal} latentbits " + " ".join(arguments))
    done = subprocess.run(
        [sys.executable, "-m", "latentbits.cli.main", *arguments],
        env={**os.environ, "COLUMNS": "2000", **terminal},
        capture_output=True,
    )
    judge(case, done.returncode, *(text.decode("utf-8", "replace") for text in (done.stdout, done.stderr)))
    if done.returncode:
        raise Fault("exit 0", f"exit {done.returncode}: {done.stderr[-400:]!r}")
    return "result"
