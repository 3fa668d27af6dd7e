"""Tipping (1998), Probabilistic Visualisation of High-dimensional Binary Data: figures 1 to 4 and table 1."""
