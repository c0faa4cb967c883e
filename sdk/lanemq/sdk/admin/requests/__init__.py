"""Administrative requests to a broker or a name server, about what it has."""
