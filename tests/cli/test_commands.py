"""Every command: what it writes, what it prints, and what it makes of names and of bad input."""

import shlex
from pathlib import Path

import numpy as np
import pytest

import latentbits
from latentbits.data import read

# --- from a file to a model and back ---


def test_round_trip(tool, csv, model, table, names):
    estimator = latentbits.load(model)
    assert estimator.weights_.shape == (2,)
    assert tuple(estimator.feature_names_in_) == names

    scored = tool.json("score", model, csv, "--per-row", "rows.csv")
    per_row = read("rows.csv")
    assert per_row.feature_names == ("log_likelihood",)
    assert scored["n_rows"] == 240 == len(per_row.values)
    assert scored["log_likelihood"] == pytest.approx(per_row.values.sum(), rel=1e-5)
    assert scored["bits_per_row"] == pytest.approx(-scored["nats_per_row"] / np.log(2))
    assert scored["bits_per_row_error"] > 0

    done = tool.json("complete", model, csv, "-o", "full.csv")
    filled = read("full.csv")
    assert done["n_filled"] == 12
    assert filled.feature_names == names
    seen = ~np.isnan(table)
    np.testing.assert_array_equal(filled.values[seen], table[seen])
    assert np.all((filled.values[~seen] > 0) & (filled.values[~seen] < 1))

    assert len(tool.json("transform", model, csv, "-o", "z.npz")["columns"]) == 2
    np.testing.assert_allclose(read("z.npz").values.sum(axis=1), 1, atol=1e-5)
    tool("transform", model, csv, "--scores", "map", "-o", "z.csv")
    assert set(read("z.csv").values.flat) == {0, 1}  # the most probable component
    assert "is a BernoulliMixture" in tool("transform", model, csv, "--errors", "-o", "z.csv", code=1).stderr

    drawn = tool.json("sample", model, "-n", 7, "--seed", 3, "-o", "new.csv")
    assert drawn["n_rows"] == 7
    new = read("new.csv")
    assert new.feature_names == names
    assert new.values.shape == (7, 6)
    tool("sample", model, "-n", 7, "--seed", 3, "-o", "again.csv")
    assert Path("again.csv").read_text() == Path("new.csv").read_text()


def test_the_same_seed_gives_the_same_file(tool, csv, model):
    tool("fit", csv, "-k", 2, "-o", "again.safetensors")
    assert Path("again.safetensors").read_bytes() == model.read_bytes()


def test_fit_says_what_it_does(tool, csv):
    result = tool("fit", csv, "--model", "product", "-o", "p.safetensors")
    assert result.stdout == ""
    assert "240 rows x 6 columns, 12 missing" in result.stderr
    assert "fitting independent bits" in result.stderr
    assert "wrote p.safetensors" in result.stderr


def test_a_fit_cut_short_is_reported_in_a_line(tool, csv):
    result = tool("fit", csv, "-k", 2, "--restarts", 1, "--max-iter", 1, "--tol", 0, "-o", "m.safetensors")
    assert "warning: BernoulliMixture reached --max-iter" in result.stderr


def test_other_marks_of_missing_and_columns_left_out(tool, tmp_path):
    (tmp_path / "x.csv").write_text("id,a,b\nfirst,1,-1\nsecond,0,1\nthird,1,0\n")
    found = tool.json("fit", "x.csv", "--model", "product", "--missing", "-1", "--labels", "id", "-o", "m.safetensors")
    assert found["n_columns"] == 2
    assert tuple(latentbits.load("m.safetensors").feature_names_in_) == ("a", "b")


def test_columns_of_text_are_named_at_once(tool, tmp_path):
    (tmp_path / "x.csv").write_text("my id,a,kind,b\nfirst,1,x,1\nsecond,0,y,1\nthird,1,z,nothing\n")
    (refused,) = tool("fit", "x.csv", "--model", "product", code=1).stderr.splitlines()
    assert "columns that hold no numbers: b (with nothing)" in refused
    command = "latentbits fit x.csv --model product --missing nothing"
    assert f"If nothing marks missing cells: {command}." in refused
    result = tool(*shlex.split(command)[1:], "--labels", "kind")  # one that is named is not all that there are
    assert "taken as labels, since they are no bits: my id (text)" in result.stderr
    assert "3 rows x 2 columns" in result.stderr
    (tmp_path / "y.csv").write_text("".join(f"{i % 2},{i / 4 + 3},{i // 2 % 2},{i // 4 % 2}\n" for i in range(12)))
    (tmp_path / "z.csv").write_text("a,depth,b,c\n" + (tmp_path / "y.csv").read_text())
    for line in (
        ("fit", "z.csv", "-m", "product"),
        ("compare", "z.csv", "--models", "product"),
        ("score", "model.safetensors", "z.csv"),
    ):
        assert "taken as labels, since they are no bits: depth (numbers)" in tool(*line).stderr


def test_no_header(tool, tmp_path):
    (tmp_path / "x.csv").write_text("1,0\n0,1\n1,1\n")
    assert tool.json("fit", "x.csv", "--no-header", "--model", "product")["n_rows"] == 3
    assert Path("model.safetensors").exists()


# --- names of columns ---


def test_reordered_columns_are_put_right(tool, csv, model, table, names, write_csv):
    order = [3, 1, 0, 2, 5, 4]
    write_csv("moved.csv", table[:, order], [names[j] for j in order])
    result = tool("score", model, "moved.csv", "--json")
    assert "reordered by name" in result.stderr
    assert tool.json("score", model, "moved.csv") == tool.json("score", model, csv)


def test_other_columns_are_named(tool, model, table, write_csv):
    write_csv("other.csv", table, ("hair", "milk", "eggs", "wings", "fins", "tail"))
    result = tool("score", model, "other.csv", code=1)
    assert result.stderr.splitlines()[-1].startswith("error: other.csv: its columns are not those")
    assert "lacks 'legs' and has also 'tail'" in result.stderr


def test_a_file_without_names_is_taken_in_order(tool, model, table, names, write_csv):
    write_csv("bare.csv", table, None)
    result = tool("complete", model, "bare.csv", "-o", "full.csv")
    assert "names no columns" in result.stderr
    assert read("full.csv").feature_names == names
    write_csv("narrow.csv", table[:, :4], None)
    result = tool("score", model, "narrow.csv", code=1)
    assert "narrow.csv has 4 columns, but the model was fitted to 6" in result.stderr


# --- compare, data ---


def test_compare(tool, csv):
    found = tool.json("compare", csv, "--models", "product,mixture:2")
    assert [m["name"] for m in found["models"]] == ["mixture of 2", "independent bits"]
    assert found["best"] == "mixture of 2"
    assert found["n_held_out"] == 60
    assert tool.json("compare", csv, "--models", "product", "--folds", 3)["n_held_out"] == 240
    assert found["stack_weights"] == {}
    stacked = tool.json("compare", csv, "--models", "product,mixture:2", "--stack")
    assert "stack of all" in [model["name"] for model in stacked["models"]]
    assert sum(stacked["stack_weights"].values()) == pytest.approx(1)
    assert "stack of all: " in tool("compare", csv, "--models", "product,mixture:2", "--stack").stdout
    result = tool("compare", csv, "--models", "product,mixture:2")
    assert "bits per row" in result.stdout
    assert "fitting independent bits, mixture of 2 (25% of the rows held out)" in result.stderr


def test_compare_takes_every_family_of_bits(tool, csv, monkeypatch):
    seen = {}
    monkeypatch.setattr("latentbits.choosing.compare.compare", lambda rows, named, **_: seen.update(named) or 1 / 0)
    sizes = ("product", "latent-trait:1", "clipped-gaussian:2", "clipped-gaussian:parallel", "combination-machine:2")
    tool("compare", csv, "--models", ",".join(sizes), "--restarts", 2, code=1)
    titles = ("independent bits", "1 latent trait", "clipped Gaussian of 2", "clipped Gaussian (parallel)")
    assert tuple(seen) == (*titles, "combination machine of 2")
    assert [seen[title].n_components for title in titles[1:]] == [1, 2, "parallel"]


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ("trees", "'trees' is none of product"),
        ("mixture:0", "mixture:K"),
        ("mixture:x", "mixture:K"),
        ("mixture:parallel", "clipped-gaussian:K"),
        ("clipped-gaussian:all", "of a clipped Gaussian also parallel"),
        ("product:2", "--models"),
        ("", "--models"),
        ("product,binary-sparse-coding:4", "'binary-sparse-coding:4' is a model of real numbers"),
    ],
)
def test_compare_refuses_unknown_models(tool, csv, models, message):
    assert message in tool("compare", csv, "--models", models, code=2).stderr


def test_data_lists_tells_and_writes(tool):
    listed = tool.json("data")["datasets"]
    assert {"digits", "carcinoma"} <= {info["name"] for info in listed}
    assert "carcinoma" in tool("data").stdout
    assert tool.json("data", "carcinoma")["shape"] == [118, 7]
    assert "bundled" in tool("data", "carcinoma").stdout
    assert tool.json("data", "carcinoma", "-o", "c.csv")["shape"] == [118, 7]
    assert read("c.csv").shape == (118, 7)
    assert "known are" in tool("data", "nothing", code=1).stderr
    tool("data", "--split", "train", code=2)
    tool("data", "carcinoma", "--split", "train", code=2)
    assert "no split" in tool("data", "carcinoma", "--split", "train", "-o", "c.csv", code=1).stderr


def test_a_public_set_is_data(tool):
    result = tool("fit", "carcinoma", "--model", "product")
    assert "118 rows x 7 columns" in result.stderr


# --- bad input ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "no.csv"), "there is no such file"),
        (("fit", "digit"), "Did you mean digits?"),
        (
            ("fit", "numbers.csv"),
            "hold no bits: b (with 7). If 7 marks missing cells: latentbits fit numbers.csv --missing 7.",
        ),
        (("compare", "numbers.csv"), "If 7 marks missing cells: latentbits compare numbers.csv --missing 7."),
        (("score", "p.safetensors", "wrong.csv"), "row 0, column 5 ('legs') holds 2"),
        (("fit", "words.csv"), "--missing"),
        (("fit", "bits.csv", "-o", "no/folder/m.safetensors"), "no/folder"),
        (("score", "no.safetensors", "bits.csv"), "there is no model file"),
        (("score", "bits.csv", "bits.csv"), "bits.csv is by its name a table"),
        (("transform", "p.safetensors", "bits.csv", "-o", "z.csv"), "no hidden causes"),
        (("sample", "p.safetensors", "-o", "z.doc"), "cannot write '.doc'"),
    ],
)
def test_bad_input_is_one_line(tool, csv, names, arguments, message):
    Path("numbers.csv").write_text("a,b\n1,0\n0,7\n")
    Path("wrong.csv").write_text(",".join(names) + "\n0,0,0,0,0,2\n")
    Path("words.csv").write_text("a,b\n1,0\n0,seven\n")
    tool("fit", "bits.csv", "--model", "product", "-o", "p.safetensors")
    result = tool(*arguments, code=1)
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert message in errors[0]
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_binarize_takes_real_numbers(tool):
    Path("numbers.csv").write_text("a,b\n1,0\n0,7\n3,3\n")
    tool("fit", "numbers.csv", "--binarize", 2, "--model", "product", "-o", "m.safetensors")
    assert tool.json("score", "m.safetensors", "numbers.csv")["n_rows"] == 3  # the model remembers where to cut


@pytest.mark.parametrize("place", ["before", "after"])
def test_debug_shows_the_traceback(tool, place):
    arguments = ["fit", "no.csv"]
    result = tool(*(["--debug", *arguments] if place == "before" else [*arguments, "--debug"]), code=1)
    assert isinstance(result.exception, ValueError)


def test_usage_errors_exit_with_2(tool, csv):
    tool("fit", csv, "-k", 0, code=2)
    tool("fit", csv, "--model", "trees", code=2)
    tool("nothing", code=2)
    tool("score", code=2)
    assert "--split is for public data sets" in tool("fit", csv, "--split", "train", code=2).stderr


# --- Ctrl-C ---


def test_ctrl_c_exits_with_130(tool, csv, monkeypatch):
    def press(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("latentbits.cli.fit.load_rows", press)
    result = tool("fit", csv, code=130)
    assert result.stderr.splitlines()[-1] == "interrupted"


def test_ctrl_c_in_a_fit_keeps_the_model(tool, csv, monkeypatch):
    import signal

    from latentbits.engines import monitor

    record = monitor.Monitor.record

    def press(self, entry):
        record(self, entry)
        if entry.iteration == 1:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(monitor.Monitor, "record", press)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores the key
    try:
        tool("fit", csv, "-k", 2, "--plain", "--restarts", 1, "-o", "m.safetensors", code=130)
        assert latentbits.load("m.safetensors").converged_ is False
        tool("compare", csv, "--models", "mixture:2,mixture:3", code=130)
    finally:
        signal.signal(signal.SIGINT, before)


def test_ids_and_groups_go_along(tool, model, table, names):
    """What --labels names, and a column of row names, stand again beside the results."""
    rows = [",".join("" if np.isnan(v) else str(int(v)) for v in row) for row in table]
    head = ",".join(names)
    Path("people.csv").write_text(f"id,group,{head}\n" + "".join(f"p{i},g{i % 2},{x}\n" for i, x in enumerate(rows)))
    for command in ("transform", "complete"):
        tool(command, model, "people.csv", "--labels", "id", "--labels", "group", "-o", "out.csv")
        lines = Path("out.csv").read_text().splitlines()
        assert lines[0].startswith("id,group,")
        assert lines[4].startswith("p3,g1,")
    Path("named.csv").write_text(f",{head}\n" + "".join(f"site {i},{x}\n" for i, x in enumerate(rows)))
    tool("complete", model, "named.csv", "-o", "out.csv")
    assert Path("out.csv").read_text().splitlines()[::2][:2] == [f",{head}", f"site 1,{rows[1]}"]


def test_the_folder_is_looked_for_before_the_fit(tool, csv):
    result = tool("fit", csv, "-o", "nowhere/m.safetensors", code=1)
    assert "there is no folder nowhere" in result.stderr
    assert "fitting" not in result.stderr


# --- what files mean ---


def test_images_of_0_and_255_are_cut_and_not_missing(tool):
    bits = (np.random.default_rng(0).random((60, 5)) < 0.3).astype(np.uint8)
    for name, save in (
        ("x.npz", lambda: np.savez("x.npz", X=255 * bits)),
        ("x.npy", lambda: np.save("x.npy", 255 * bits)),
    ):
        save()
        result = tool("fit", name, "-m", "product", "--binarize", 127, "-o", "m.safetensors")
        assert "60 rows x 5 columns, 0 missing" in result.stderr
        np.testing.assert_allclose(latentbits.load("m.safetensors").means_, bits.mean(axis=0), atol=0.02)
    np.savez("x.npz", X=np.where(np.arange(60)[:, None] % 7, bits, 255).astype(np.uint8))
    refused = tool("fit", "x.npz", "-m", "product", "-o", "m.safetensors", code=1)
    assert "If 255 marks missing cells: latentbits fit x.npz" in refused.stderr
    assert "--binarize 0.5" not in refused.stderr
    assert "45 missing" in tool("fit", "x.npz", "-m", "product", "--missing", 255, "-o", "m.safetensors").stderr


def test_a_first_line_that_could_be_either_is_reported(tool):
    Path("two.csv").write_text("0,1\n1,0\n1,1\n")
    message = tool("fit", "two.csv", "-m", "product", "-o", "m.safetensors").stderr
    assert "two.csv: the first line (0,1) is taken for a row; --header says that it holds names" in message
    assert "3 rows x 2 columns" in message
    assert "is taken for" not in tool("fit", "two.csv", "--header", "-m", "product", "-o", "m.safetensors").stderr
    Path("counts.csv").write_text("0,1,2\n5,0,1\n1,1,2\n")
    message = tool("fit", "counts.csv", "-m", "product", "--binarize", 0.5, "-o", "m.safetensors").stderr
    assert (
        "warning: counts.csv: the first line (0,1,2) is taken for names, and could be a row; --header/--no-header"
        in message
    )


def test_labels_are_digits_of_ours_or_names(tool, csv):
    refused = tool("fit", csv, "--labels", "²", "-m", "product", "-o", "m.safetensors", code=1)
    assert "there is no column '²' of labels or weights; the columns are hair" in refused.stderr
    Path("x.csv").write_text("²,a\np,1\nq,0\n")
    assert "2 rows x 1 column," in tool("fit", "x.csv", "--labels", "²", "-m", "product", "-o", "m.safetensors").stderr
    Path("y.csv").write_text(",0,1,2\n0,1,p,0\n1,0,q,1\n2,1,p,1\n")
    tool("fit", "y.csv", "--labels", "1", "-m", "product", "-o", "m.safetensors")
    assert tuple(latentbits.load("m.safetensors").feature_names_in_) == ("0", "2")


def test_written_csv_guards_formulas(tool):
    Path("x.csv").write_text("who,=1+2,b\n=cmd(),0,NA\n@me,1,1\n-4,1,0\n")
    tool("fit", "x.csv", "--labels", "who", "-m", "product", "-o", "m.safetensors")
    tool("complete", "m.safetensors", "x.csv", "--labels", "who", "-o", "full.csv")
    lines = Path("full.csv").read_text().splitlines()
    assert lines[0] == "who,'=1+2,b"
    assert [line.partition(",")[0] for line in lines[1:]] == ["'=cmd()", "'@me", "-4"]
    again = read("full.csv", labels=["who"])
    assert again.feature_names == ("=1+2", "b")
    assert again.labels["who"].tolist() == ["=cmd()", "@me", "-4"]
    tool("score", "m.safetensors", "full.csv", "--labels", "who", code=1)  # its completed bit is a probability
    tool("score", "m.safetensors", "x.csv", "--labels", "who")


# --- weights ---

COUNTED = "a,b,c,n\n0,1,1,10\n1,1,0,20\n0,0,0,30\n1,1,1,25\n0,1,0,0\n1,0,1,15\n"


def written_out():
    lines = COUNTED.splitlines()
    rows = [line.rpartition(",") for line in lines[1:]]
    return "\n".join(["a,b,c", *(bits for bits, _, n in rows for _ in range(int(n)))]) + "\n"


def test_a_column_of_weights_is_the_table_written_out(tool):
    Path("counted.csv").write_text(COUNTED)
    Path("written.csv").write_text(written_out())
    fitted = tool("fit", "counted.csv", "-m", "product", "--weights", "n", "-o", "counted.safetensors")
    assert "6 rows x 3 columns, 0 missing, which count as 100" in fitted.stderr
    tool("fit", "written.csv", "-m", "product", "-o", "written.safetensors")
    a, b = (latentbits.load(f"{name}.safetensors") for name in ("counted", "written"))
    np.testing.assert_allclose(a.means_, b.means_, rtol=1e-5)
    assert tuple(a.feature_names_in_) == ("a", "b", "c")
    mine = tool.json("score", "written.safetensors", "counted.csv", "--weights", "3")
    theirs = tool.json("score", "written.safetensors", "written.csv")
    for name in ("log_likelihood", "nats_per_row", "nats_per_row_error", "bits_per_row", "bits_per_row_error"):
        assert mine[name] == pytest.approx(theirs[name], rel=1e-6), name
    assert (mine["n_rows"], mine["weight"]) == (6, 100)
    found = tool.json("compare", "counted.csv", "--weights", "n", "--models", "product", "--folds", 5)
    assert found["n_held_out"] == 5  # the row that does not count is not among them


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("k", "10", "there is no column 'k' of labels or weights; the columns are a, b, c, n"),
        ("n", "-1", "a weight must be a number from 0, but row 0 of column 'n' (--weights) holds '-1'"),
        ("n", "", "a weight must be a number from 0, but row 0 of column 'n' (--weights) holds"),
        ("n", "many", "holds 'many'"),
    ],
)
def test_invalid_weights_are_refused(tool, column, cell, message):
    Path("counted.csv").write_text(COUNTED.replace("0,1,1,10", f"0,1,1,{cell}"))
    assert (
        message
        in tool("fit", "counted.csv", "-m", "product", "--weights", column, "-o", "m.safetensors", code=1).stderr
    )


def test_weights_are_no_labels_and_come_in_files_with_columns(tool):
    Path("counted.csv").write_text(COUNTED)
    refused = tool("fit", "counted.csv", "--weights", "n", "--labels", "3", "-o", "m.safetensors", code=2)
    assert "--weights and --labels both name column 'n'" in refused.stderr
    np.save("x.npy", np.eye(3, dtype=np.uint8))
    refused = tool("fit", "x.npy", "--weights", "0", "-o", "m.safetensors", code=1)
    assert "--weights names a column of text or parquet files" in refused.stderr
    assert "--weights is for files" in tool("fit", "digits", "--weights", "0", "-o", "m.safetensors", code=2).stderr


def test_fit_draws_the_classes(tool, csv):
    result = tool("fit", csv, "-k", 2, "--figures", "drawn", "--figure-format", "svg")
    assert "wrote drawn: classes.svg, pairs.svg" in result.stderr
    words = Path("drawn/classes.svg").read_text("utf-8")
    assert "class 1, " in words
    assert "class 2, " in words
    result = tool("fit", csv, "-m", "noisy-or", "--figures", "drawn", code=2)
    able = "chow-liu-tree, latent-tree, mixture, latent-trait, item-response and curved-trait"
    assert f"--figures is for --model {able}, not noisy-or." in " ".join(result.stderr.split())
