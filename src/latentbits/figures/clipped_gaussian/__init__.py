"""Pictures of clipped Gaussians."""
