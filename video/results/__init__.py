"""The results of a video: rows, tables, masks, arrays, and the files that keep them."""
