"""Tables as users hold them: validation, frames, columns of several kinds."""
