"""Keys of lanemq's broker beside those of etcd, and very many of them."""
