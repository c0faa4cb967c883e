"""Administrative requests: each to one server, about what that server has."""
