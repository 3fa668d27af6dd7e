"""Statistics after a fit: pure functions of arrays that make reports, and one module (`render`) that writes them."""
