//! Every bound of the relay protocol, with its reason. REST limits are in `api::limits`.

/// Largest WebSocket frame, either direction of the core. Platforms accept more (32 MiB in a
/// Durable Object, 64 MiB in Deno); a small bound keeps one peer from filling shared memory.
pub const MAX_FRAME_BYTES: usize = 1024 * 1024;

/// Largest text frame: control messages and y-webrtc signaling (an SDP offer is a few KB).
pub const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Messages in one binary frame. Stock clients send one or two; relays pack at most this many.
pub const MAX_MESSAGES_PER_FRAME: usize = 1024;

/// Largest stored document, as one Yjs update. Past it a writer is closed with 4413. A load holds
/// it several times over, in 128 MB that all objects of an isolate share.
pub const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// Nesting of JSON and of Yjs `Any` values. yrs decodes recursively: in a Durable Object 5,000
/// levels still worked and 5,500 trapped, so this keeps a wide margin.
pub const MAX_NESTING: usize = 512;

/// Awareness entries in one message: a client announces itself and what it knows of others.
pub const MAX_AWARENESS_ENTRIES: usize = 256;

/// Largest state of one awareness entry: a name, a colour and a cursor take a few hundred bytes.
pub const MAX_AWARENESS_STATE_BYTES: usize = 16 * 1024;

/// Awareness client ids that one connection may own. A tab has one; a bridge has a few.
pub const MAX_OWNED_CLIENT_IDS: usize = 16;

/// Bytes of a session attachment. The platform's limit is 16,384; ours leaves room for it to
/// count differently (D1a).
pub const MAX_ATTACHMENT_BYTES: usize = 8 * 1024;

/// Bytes of a workspace id.
pub const MAX_WORKSPACE_ID_BYTES: usize = 64;

/// Bytes of a node path (R4).
pub const MAX_PATH_BYTES: usize = 512;

/// Signaling topics that one connection may subscribe to.
pub const MAX_TOPICS: usize = 32;

/// Bytes of a signaling topic.
pub const MAX_TOPIC_BYTES: usize = 256;
