"""The cache of compiled programs between processes, and the stopwatch of an initialization."""
