"""From steps to recorded commands: checks, hazards and one dispatch, the same for every API."""
