"""The command-line tool: one file a command, and nothing heavy imported before a command runs."""
