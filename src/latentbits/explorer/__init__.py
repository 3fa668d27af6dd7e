"""The page that `latentbits explore` writes: content.py (arrays) -> payload.py -> page.py (one HTML file)."""
