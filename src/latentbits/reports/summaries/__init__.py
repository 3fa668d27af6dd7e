"""Summaries of fits, a module a family: facts and tables for people and JSON, causes for the page.

A module has two functions, ``summarize(model, rows) -> Summary`` and ``show(name, model, values, n_rows, weights) ->
Shown``, where `n_rows` is the number of rows learned from, and `weights` are those of `values`.  The record of a family
(`estimators/families.py`) names its module.
"""
