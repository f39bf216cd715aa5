"""Memory that GL and OpenCL both address: which way works between two devices, and who waits for whom."""
