"""The TfLiteDelegate and what it does: read, transform, lower, plan memory, record, bind, run."""
