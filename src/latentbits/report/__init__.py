"""From fitted models to what people look at: arrays (`summaries`, `map_summaries`, `field_summaries`), then pictures
(`figures`, `maps`, `curves`, `fields`)."""
