"""The index of timers: the messages of ``rmq_sys_wheel_timer`` by their due times."""
