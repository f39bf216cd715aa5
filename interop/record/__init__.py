"""Recording of steps as commands: checks, hazards and one dispatch, shared by all APIs."""
