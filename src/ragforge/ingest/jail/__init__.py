"""A file is parsed by a process that can harm nobody: one fresh child for each file.

prechecks   cheap looks at the bytes, in the parent
pool        `Jail`, what the parent calls
launcher    a small process that holds the parsers ready and forks a child for each file
cell        what the child does: raise the walls, then parse
kernel      the Linux calls the walls are made of
walls       which of them hold on this machine
"""
