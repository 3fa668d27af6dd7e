"""One file a family; what it has to hold is in `benchmarks.peers`."""
