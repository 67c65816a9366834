"""What programs read: the fields of the command line's `--json` and of the servers' answers."""
