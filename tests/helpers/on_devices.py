"""Fits on several devices against fits on one, bit for bit; run as a script, since their number is fixed at the start.

python on_devices.py 1 2 3    every family of the contract on that many virtual devices, in memory and as a stream;
                              the last number is for the first family alone, since each device compiles its own programs
"""

from __future__ import annotations

import sys

import jax
from on_workers import alone, learn, same_bits


def main(numbers):
    jax.config.update("jax_num_cpu_devices", max(numbers))
    from cases import CASES

    from latentbits.engines import devices, memory, passes
    from latentbits.engines.memory import MemoryEngine

    everywhere = jax.local_devices()
    asked, several = set(), 0
    device_of = devices.device_of

    def noted(number, layout):
        asked.add(found := device_of(number, layout))
        return found

    for case in CASES:
        if case.slow:
            continue
        found = []
        for n in numbers if case is CASES[0] else numbers[:-1]:
            asked.clear()
            devices.devices = lambda n=n: tuple(everywhere[:n])
            memory.device_of = passes.device_of = noted
            found.append((learn(case, MemoryEngine(case.table)), alone(case)))
            several += n == numbers[1] and len(asked) > 1
        for (held, streamed), n in zip(found, numbers):
            assert same_bits(held, found[0][0]), f"{case.name} in memory on {n}"
            assert same_bits(streamed, found[0][1]), f"{case.name} as a stream on {n}"
        print(case.name, "has the same bits", flush=True)
    print(several, "fits had chunks on several devices")


if __name__ == "__main__":
    main([int(n) for n in sys.argv[1:]])
