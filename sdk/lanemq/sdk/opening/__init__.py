"""Arguments of the `open_…` functions: single options by keyword, and checks of what is given."""
