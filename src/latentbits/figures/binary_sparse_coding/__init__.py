"""Pictures of basis functions."""
