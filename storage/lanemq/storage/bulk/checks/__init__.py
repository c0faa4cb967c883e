"""What a conversion looks at before its work, checks after it, and reports."""
