"""Apache's command line tools: all of their commands, and what each prints."""
