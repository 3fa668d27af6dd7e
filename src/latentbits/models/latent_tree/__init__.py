"""Hidden causes on a tree: hidden Chow-Liu trees, plain ones, and mixtures of them."""
