"""GUIDED DISCOVERY: an interview that ends in a document. The steps of a turn; `flows/interview.py` puts them in order.

knowledge   modes, probes and patterns: data, looked up by key
route       Phase A: which probe, which patterns, whether to read anything
recall      older turns that bear on this one
context     Phase B's context in its order, within its budgets
tools       what a model may do to the state, and the checks before it is done
ears        words, sentences and questions of a message
filler      whether there is anything to go on, offers that are taken up
hear        the same as tools by rules: what a person's message states
questions   what is asked next, and how a turn reads without a model
register    assumptions, what rests on what, and what falls
skeleton    points of the document, by section
document    the skeleton as a cited document
"""
