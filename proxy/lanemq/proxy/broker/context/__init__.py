"""The context that the handlers of a broker share."""
