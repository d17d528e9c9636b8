"""What a schema cannot say: the bodies that Yjs makes, so that documents are written and not only refused."""

import schemathesis
from hypothesis import strategies as st

# By Yjs: `doc.clientID = 101; doc.getText("content").insert(0, "hello")`, and `"list"` with `[1, "two"]`
# by client 102. Then the empty update.
UPDATES = [
    bytes.fromhex("01016500040107636f6e74656e740568656c6c6f00"),
    bytes.fromhex("010166000801046c697374027d01770374776f00"),
    bytes.fromhex("0000"),
]

schemathesis.openapi.media_type(
    "application/octet-stream",
    st.sampled_from(UPDATES) | st.binary(max_size=64),
    aliases=["application/x-yjs-update"],
)
schemathesis.openapi.media_type("text/plain", st.text(max_size=64).map(str.encode))
