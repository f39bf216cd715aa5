"""Charts of models: what ran how long, what lies where, what differs. They need the extra `plot`."""
