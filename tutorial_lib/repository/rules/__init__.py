"""The rules, by subject; importing this package fills `RULES`."""
