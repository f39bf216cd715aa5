"""The cache of compiled programs between processes, and the time that an initialization takes."""
