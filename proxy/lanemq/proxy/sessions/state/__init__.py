"""Connected clients and their groups: members, filters, locks, parked pulls, stages."""
