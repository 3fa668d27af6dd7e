"""Every family beside its peers: one run, one table of ratios; `python -m benchmarks.peers --help`.

A family is a file in `families`, which needs NumPy alone to be imported, since every peer's process does so:

    TITLE                what the family is called in tables; the docstring of the file is printed above its table
    tables(quick)        name -> Table(train, test, settings); settings are keywords of every fit; in
                         place of a Table, words that say why it was left out (a public set that is not there)
    CONTENDERS           name -> Contender; the first is "latentbits"
    held_out(params, test)   mean log-likelihood of a test row in nats, in float64, one function for all contenders
    GROWTH               what grows ("rows", "columns", "causes") -> Growth; latentbits alone
    WHY                  name of a peer -> why we are not ahead of it, shown only where we are not
"""
