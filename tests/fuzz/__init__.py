"""Random cases against the public face of the library and of the command line, each repeatable by its number.

    python -m tests.fuzz.run --cases 2000 --seed 0
    python -m tests.fuzz.run --only numbers --case 17     one case again, in this process, with its traceback

A case is made from its kind, the seed and its number alone.  Nothing here looks at how the library works inside, but
for the checksum of model files, which a forger would compute too.
"""
