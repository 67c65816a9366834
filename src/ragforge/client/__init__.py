"""A workspace on a server, with the methods of `Ragforge`.

    with RemoteForge("http://127.0.0.1:8600", key="rf_…") as forge:
        forge.add("docs/", project="demo")
        forge.ask("How long can I return a chair?", project="demo")

Records and errors are the same as with `Ragforge`. An answer that is cut off by the network goes on where it stopped.
What is about the machine of the workspace itself (`ELSEWHERE`) is refused, with what to do instead.
"""

from ragforge.client.remote import ELSEWHERE, RemoteForge
from ragforge.client.wire import CODES

__all__ = ["CODES", "ELSEWHERE", "RemoteForge"]
