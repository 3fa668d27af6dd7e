"""From what the page shows to what the page holds: one JSON object, and typed arrays by name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from latentbits.explorer.content import Content, Labels, Map, Maps, Meaning, Misfit, ModelRow, Table
from latentbits.explorer.meanings import ONES, axis_title, colouring, has_order, in_words, names_for
from latentbits.explorer.typed_arrays import Arrays
from latentbits.reports.render import plain
from latentbits.reports.summaries.records import Gallery, Layer, Tree

__all__ = ["payload_of"]

MOST_POINTS = 400  # of a curve


def payload_of(content: Content) -> tuple[dict[str, Any], Arrays]:
    """Make the JSON object of the page, and its arrays; where something was not fitted, its entry is null."""
    arrays = Arrays()
    head = {
        "title": content.title,
        "unit": content.unit,
        "n_close": content.n_close,
        "table": _table(content.table, content.meanings, arrays),
        "map": None if content.map is None else _map(content.map, content, arrays),
        "maps": None if content.maps is None else _maps(content.maps, arrays),
        "misfit": None if content.misfit is None else _misfit(content.misfit),
        "models": [_model(model) for model in content.models],
        "galleries": [_gallery(g, f"gallery.{i}", content.meanings, arrays) for i, g in enumerate(content.galleries)],
        "morph": None,
        "spectra": None,
        "courses": [{"name": c.name, "values": _thinned(c.values)} for c in content.courses],
    }
    if content.morph is not None and content.table.image_shape is not None:
        head["morph"] = {"name": content.morph.name}
        arrays.add("morph.weights", content.morph.weights, "f4")
        arrays.add("morph.phi", content.morph.phi, "f4")
        arrays.add("morph.places", content.morph.places, "f4")
    if content.spectra is not None:
        head["spectra"] = {
            "binary": _numbers(content.spectra.binary),
            "latent": _numbers(content.spectra.latent),
            "n_components": content.spectra.n_components,
        }
    head["arrays"] = arrays.heads
    return head, arrays


def _table(table: Table, meanings: Sequence[Meaning], arrays: Arrays) -> dict[str, Any]:
    missing = np.isnan(table.values)
    if table.real:
        arrays.add("rows.values", table.values, "f4")  # scaled numbers would lose a column with outliers
    else:
        arrays.add_bits("rows.values", table.values > 0.5)
    if missing.any():
        arrays.add_bits("rows.missing", missing)
    if len(table.numbers) < table.n_rows or not np.array_equal(table.numbers, np.arange(table.n_rows)):
        arrays.add("rows.numbers", table.numbers, "u4")
    if table.weights is not None:
        arrays.add("rows.weights", table.weights, "f4")
    for i, labels in enumerate(table.labels):
        _add_labels(f"labels.{i}", labels, arrays)
    return {
        "source": table.source,
        "n_rows": table.n_rows,
        "n_shown": len(table.values),
        "columns": list(table.columns),
        "real": table.real,
        "image_shape": None if table.image_shape is None else list(table.image_shape),
        "labels": [
            {
                "name": labels.name,
                "levels": list(labels.levels),
                "numeric": labels.numbers is not None,
                "ordered": has_order(labels, meanings),
            }
            for labels in table.labels
        ],
        "row_names": None if table.row_names is None else list(table.row_names),
    }


def _add_labels(name: str, labels: Labels, arrays: Arrays) -> None:
    """Add numbers in single precision, NaN where unknown; kinds by their number, 65535 where unknown."""
    if labels.numbers is None:
        arrays.add(name, np.where(labels.codes < 0, 65535, labels.codes), "u2")
    else:
        arrays.add(name, labels.numbers, "f4")


def _map(where: Map, content: Content, arrays: Arrays) -> dict[str, Any]:
    arrays.add_scaled("map.means", where.means)
    arrays.add_scaled("map.covariances", where.covariances)
    arrays.add("map.weights", where.weights, "f4")
    arrays.add("map.bias", where.bias, "f4")
    arrays.add("map.cost", np.minimum(where.cost, np.finfo(np.float32).max), "f4")
    if where.noise is not None:
        arrays.add("map.noise", where.noise, "f4")
    if content.axes is not None and content.axes.errors is not None:
        arrays.add("map.errors", content.axes.errors, "f4")
    coloured = colouring(content.meanings, content.table.labels)
    return {
        "name": where.name,
        "lines": [int(j) for j in where.lines],
        "axes": [axis_title(axis, names_for(content.meanings, None, 0, axis)) for axis in range(2)],
        "label": None if coloured is None else coloured[0],
        "label_why": "" if coloured is None else coloured[1],
        "no_errors": "they were not looked for" if content.axes is None else content.axes.why,
        "meanings": [_meaning(one) for one in content.meanings if one.gallery is None],
    }


def _maps(maps: Maps, arrays: Arrays) -> dict[str, Any]:
    arrays.add("maps.home", maps.home, "u1")
    arrays.add_scaled("maps.sure", maps.sure)
    arrays.add_scaled("maps.means", maps.means)
    arrays.add_scaled("maps.covariances", maps.covariances)
    arrays.add("maps.weights", maps.weights, "f4")
    arrays.add("maps.bias", maps.bias, "f4")
    arrays.add("maps.cost", np.minimum(maps.cost, np.finfo(np.float32).max), "f4")
    if maps.noise is not None:
        arrays.add("maps.noise", maps.noise, "f4")
    return {
        "name": maps.name,
        "shares": _numbers(maps.shares),
        "places": _numbers(maps.places),
        "lines": [lines.tolist() for lines in maps.lines],
    }


def _meaning(one: Meaning) -> dict[str, Any]:
    """Describe what an axis goes with, for a picture: how strongly, from -1 to 1 where it has a sign."""
    signed = {"AUC": 2 * one.value - 1, "eta squared": math.sqrt(max(one.value, 0))}.get(one.measure, one.value)
    measure = f"{one.measure} {one.value:.2f}".replace("-", "\N{MINUS SIGN}")
    return {"axis": one.number, "label": one.label or ONES, "strength": _numbers(signed), "measure": measure}


def _misfit(found: Misfit) -> dict[str, Any]:
    numbers = zip(*(_numbers(one) for one in (found.beyond, found.sd, found.n_odd, found.expected_odd)))
    names = ("beyond", "sd", "n_odd", "expected_odd")
    rows = [
        {"row": int(row), **dict(zip(names, own)), "odd": odd.tolist(), "surprise": _numbers(surprise)}
        for row, own, odd, surprise in zip(found.rows, numbers, found.odd, found.surprise)
    ]
    columns = {name: _numbers(getattr(found, name)) for name in ("column_bits", "column_alone")}
    return {"n_rows": found.n_rows, "rows": rows, **columns}


def _gallery(gallery: Gallery, name: str, meanings: Sequence[Meaning], arrays: Arrays) -> dict[str, Any]:
    layers = [_layer(layer, f"{name}.{i}", arrays) for i, layer in enumerate(gallery.layers)]
    for i, layer in enumerate(layers):
        numbers = range(len(layer["names"]))
        layer["meanings"] = [in_words(names_for(meanings, gallery.name, i, number)) for number in numbers]
    return {
        "name": gallery.name,
        "about": gallery.about,
        "kind": gallery.kind,
        "note": gallery.note,
        "layers": layers,
        "trees": [_tree(tree, f"{name}.tree.{i}", arrays) for i, tree in enumerate(gallery.trees)],
    }


def _tree(tree: Tree, name: str, arrays: Arrays) -> dict[str, Any]:
    """Describe a tree; its arrays, where it has states, are gallery.<number>.tree.<tree>.transitions and emissions."""
    if tree.transitions is not None and tree.emissions is not None:
        arrays.add(f"{name}.transitions", tree.transitions.reshape(len(tree.parents), -1), "f4")
        arrays.add(f"{name}.emissions", tree.emissions, "f4")
    return {
        "share": _numbers(tree.share),
        "hidden": tree.hidden,
        "parents": tree.parents.tolist(),
        "information": _numbers(tree.information),
        "sure": tree.sure.tolist(),
        "line": tree.line.tolist(),
        "depth": tree.depth.tolist(),
        "places": _numbers(tree.places),
        "found_again": None if tree.found_again is None else tree.found_again.tolist(),
        "n_rounds": tree.n_rounds,
        "arrays": None if tree.emissions is None else name,
    }


def _layer(layer: Layer, name: str, arrays: Arrays) -> dict[str, Any]:
    """Describe a layer; its arrays are called after it: gallery.<number>.<layer>.weights and so on."""
    arrays.add(f"{name}.weights", layer.weights, "f4")
    arrays.add_scaled(f"{name}.active", layer.active, "u2")
    arrays.add(f"{name}.examples", layer.examples, "u4")
    for part in ("bias", "projected"):
        values = getattr(layer, part)
        if values is not None:
            arrays.add(f"{name}.{part}", values, "f4")
    if layer.states is not None:
        arrays.add_bits(f"{name}.states", layer.states)
    return {
        "title": layer.title,
        "names": list(layer.names),
        "usage": _numbers(layer.usage),
        "found_again": None if layer.found_again is None else [int(n) for n in layer.found_again],
        "n_rounds": layer.n_rounds,
        "arrays": name,
    }


def _model(model: ModelRow) -> dict[str, Any]:
    return {
        "name": model.name,
        "family": model.family,
        "size": model.size,
        "bits": _numbers(model.bits),
        "error": _numbers(model.error),
        "trials": [
            {"size": t.size, "bits": _numbers(t.bits), "error": _numbers(t.error), "converged": t.converged}
            for t in model.trials
        ],
    }


def _thinned(values: np.ndarray) -> list[list[float | None]]:
    """Take pairs of iteration and value: of many, some, the first and the last among them."""
    values = np.asarray(values, np.float64)
    places = np.unique(np.linspace(0, len(values) - 1, min(len(values), MOST_POINTS)).round().astype(int))
    return [[int(i), _numbers(values[i])] for i in places] if len(values) else []


def _numbers(values: Any) -> Any:
    """Give a number or an array as JSON has it: seven digits are all that the page can show."""
    return plain(np.asarray(values, np.float64), digits=7)
