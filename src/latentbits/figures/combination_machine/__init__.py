"""Pictures of combination machines."""
