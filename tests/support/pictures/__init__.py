"""Parts of tests of pictures."""
