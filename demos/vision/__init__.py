"""The demos' arithmetic: boxes, regions, filters, labels and masks."""
