"""The operators: one file each, in folders by what they do."""
