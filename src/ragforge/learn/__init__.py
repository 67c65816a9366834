"""WHAT WORKED -> WHAT TO TRY: capture, match, calibrate, rank, context, retention."""
