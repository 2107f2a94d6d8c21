"""What every server program is made of: flags, option groups, and one way to run.

`flags` reads command lines as Go programs do. An option group (`groups/`) is a frozen value that
declares its flags, checks itself and builds what the rest of the program needs from it. A
program's settings (`settings`) are a handful of groups. `run` starts the program and stops it.
"""
