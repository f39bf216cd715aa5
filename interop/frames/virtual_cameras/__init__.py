"""Virtual cameras: cameras of this machine whose pictures a program makes, for any other program that opens one."""
