"""Pictures of noisy-OR networks."""
