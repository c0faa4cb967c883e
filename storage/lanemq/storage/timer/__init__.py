"""The index of timers: which message of ``rmq_sys_wheel_timer`` is due when."""
