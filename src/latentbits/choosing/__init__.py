"""Comparisons and searches for the right model, and the time they may take."""
