"""A file is parsed by a process that can harm nobody: one fresh child for each file.

prechecks       cheap looks at the bytes, in the parent
pool            `Jail`, what the parent calls; `limits` says how far a file may go
launcher        a small process that holds the parsers ready and forks a child for each file
cell            what the child does: raise the walls, then parse
kernel, seccomp the Linux calls the walls are made of
frames, verdict the child's answer, or why there is none
walls, inside   which walls hold on this machine, tried from inside
oneshot         a child without walls, for systems that have none and users who insist
"""
