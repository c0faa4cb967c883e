"""The core in a thread of its own, for the blocking and the asyncio face."""
