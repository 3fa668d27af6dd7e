"""Lewicki & Sejnowski (1996), Bayesian unsupervised learning of higher order structure."""
