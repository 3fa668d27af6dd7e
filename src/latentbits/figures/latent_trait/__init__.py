"""Pictures of a latent space: maps and item curves."""
