"""Pictures, by family: arrays first, then what draws them; each drawing function takes arrays and returns axes."""
