"""Memory that GL and OpenCL both address: the strategies, how one is chosen, and the order of the two APIs' work."""
