"""Runs programs, each reading what the one before prints, and tells what they took: `measure.py '[["tap"], ["target"]]'`."""

import json
import os
import subprocess
import sys
import time

commands = json.loads(sys.argv[1])
began = time.monotonic()
children = []
for command in commands:
    reads = children[-1].stdout if children else subprocess.DEVNULL
    prints = subprocess.DEVNULL if len(children) == len(commands) - 1 else subprocess.PIPE
    children.append(subprocess.Popen(command, stdin=reads, stdout=prints))
for child in children[:-1]:
    child.stdout.close()

# Of each with the programs that it started.
cpu_seconds = 0.0
megabytes = 0.0
failed = False
for child in children:
    _, status, usage = os.wait4(child.pid, 0)
    cpu_seconds += usage.ru_utime + usage.ru_stime
    megabytes += usage.ru_maxrss / 1024
    failed = failed or status != 0
if failed:
    sys.exit("a program failed")
print(json.dumps({"seconds": time.monotonic() - began, "cpuSeconds": cpu_seconds, "megabytes": megabytes}))
