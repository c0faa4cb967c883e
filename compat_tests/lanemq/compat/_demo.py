"""``lanemq compat demo``"""

from rich.console import Console


async def run_demo(console: Console) -> int:
    return 1
