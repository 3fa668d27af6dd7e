"""Pictures of latent classes."""
