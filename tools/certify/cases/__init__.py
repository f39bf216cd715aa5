"""Cases of operators, as models of one operator, and the choice of those that run."""
