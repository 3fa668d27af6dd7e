"""Freund & Haussler (1994), Unsupervised learning of distributions on binary vectors using two layer networks."""
