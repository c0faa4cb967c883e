"""The survey before a conversion, the checks of its result, and its report."""
