"""Several live streams at once through a model: one GL context, one network per size, figures, rows and a web page."""
