"""From fitted models to what people look at: arrays (`summaries`), then pictures (`figures`)."""
