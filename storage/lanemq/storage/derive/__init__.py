"""The units that indexes have of the log: derived in one walk, compared by one comparer."""
