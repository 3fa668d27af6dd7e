"""What fitted models have found, told by each family: facts and tables for people and JSON, causes for the page.

A family's module has two functions, ``tell(model, table) -> Told`` and ``show(name, model, values, n_rows, weights) ->
Shown``, where `n_rows` is what was learned from, and `weights` are those of `values`; its record says which module that
is.
"""
