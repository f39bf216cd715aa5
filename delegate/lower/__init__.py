"""From a graph to launches, their storage and their packed constants."""
