"""The start of a store: who had it last, what each index has, recovery and redo."""
