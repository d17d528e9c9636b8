//! The room again, from what hibernation left.

use crate::protocol::Timestamp;
use crate::protocol::message;

use super::lease::Lease;
use super::session::{Attachment, Session};
use super::{Frame, Room, RoomConfig};

impl Room {
    /// Rebuilds a room from the attachments of the connections that are still open (D1a). It reads
    /// nothing: the next frame is forwarded without the document.
    ///
    /// A hibernated room had nothing to save: it does not hibernate before its flushes are done.
    #[must_use]
    pub fn restore(config: RoomConfig, attachments: Vec<Attachment>, now: Timestamp) -> Self {
        let mut room = Self::new(config);
        let (mut stateless, mut lease_until) = (Vec::new(), 0);
        for attachment in attachments {
            let id = attachment.id;
            room.next_session = room.next_session.max(id.wrapping_add(1));
            room.next_expiry = room.next_expiry.min(attachment.info.expires_at);
            lease_until = lease_until.max(attachment.lease_until);
            if attachment.binary
                && let Some(document) = room.take_up(&attachment.info.document)
            {
                document.members.push(id);
                document.clock = document.clock.max(attachment.clock);
                (document.stored, document.is_unsure) = (document.clock, true);
                document.epoch = document.epoch.max(attachment.epoch);
                if document.awareness.restore(id, attachment.owned) {
                    stateless.push(id);
                }
            }
            let mut session = Session::new(attachment.info);
            session.binary = attachment.binary;
            session.text = attachment.text;
            session.changes = attachment.changes;
            session.topics = attachment.topics;
            room.sessions.insert(id, session);
        }
        room.lease = Lease::known(lease_until);
        if !stateless.is_empty() {
            room.send_binary(stateless, Frame::Bytes(message::query_awareness()));
        }
        room.expire(now);
        room
    }
}
