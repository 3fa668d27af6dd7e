"""Pictures that any model has."""
