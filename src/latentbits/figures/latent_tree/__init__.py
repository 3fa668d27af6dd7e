"""Pictures of trees, of hidden causes or of bits."""
