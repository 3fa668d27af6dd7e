"""The density league: every family on the twenty public sets of bits, beside what others have published.

Sizes and regularisation are chosen on the validation rows of a set alone; its test rows are looked at once, for what
was chosen.  `run.league` runs it, `kept.in_package` has the results that come with the package, `table` shows either.
"""
