"""The parts that all commands share: consoles, options, printed output."""
