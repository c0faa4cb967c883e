"""Long histories of keys at brokers that are killed, damaged, and whose clocks are set."""
