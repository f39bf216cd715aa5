"""The TfLiteDelegate and its phases: read, claim, transform, lower, plan memory, record, bind, run."""
