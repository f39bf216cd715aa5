"""Cases of operators and whole operator models, with their references."""
