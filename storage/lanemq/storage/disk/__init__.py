"""The files of a store: the interface to the disk, and the system's files behind it."""
