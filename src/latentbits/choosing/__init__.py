"""Which model is right: comparisons, searches, and the time they may take."""
