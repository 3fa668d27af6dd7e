"""Multilayer noisy-OR belief networks (Lewicki & Sejnowski 1996)."""
