//! What a person may do: a role in the workspace, and the token that was fetched under the role of then.

use crate::checks::Violation;
use crate::protocol::Timestamp;
use crate::random::Random;
use crate::world::World;

/// What the workspace lets a person do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// Read and write.
    #[default]
    Editor,
    /// Read.
    Viewer,
    /// Nothing: there is no token.
    Nobody,
}

/// A person's role, and the newest token.
#[derive(Debug, Clone, Default)]
pub struct Access {
    role: Role,
    token_writes: bool,
    token_ends: Timestamp,
    /// Whether this copy was edited, and whether by somebody who could not save it.
    is_edited: bool,
    is_tainted: bool,
    /// Whether this copy was brought to a relay while nobody knew of which epoch it is.
    is_stray: bool,
}

impl Access {
    /// The access of somebody, by a chance of its own: a world is else the same with and without viewers.
    pub fn draw(index: usize, seed: u64) -> Self {
        let mut random = Random::new(seed.rotate_left(17) ^ index as u64);
        let role = if random.percent(VIEWERS) { Role::Viewer } else { Role::Editor };
        Self { role, ..Self::default() }
    }

    /// Whether the newest token lets write.
    pub const fn token_writes(&self) -> bool {
        self.token_writes
    }

    /// When the newest token ends.
    pub const fn token_ends(&self) -> Timestamp {
        self.token_ends
    }

    /// The token must not be used again.
    pub const fn forget_token(&mut self) {
        self.token_ends = 0;
    }

    /// Fetches a token if the old one is over. False when there is none to be had.
    pub fn fetch_token(&mut self, now: Timestamp, lasts: u64) -> bool {
        if self.token_ends > now {
            return true;
        }
        if self.role == Role::Nobody {
            return false;
        }
        (self.token_writes, self.token_ends) = (self.role == Role::Editor, now + lasts);
        true
    }

    /// Whether what is written now may be kept: there is a token for it, or one to be had.
    pub fn may_write(&self, now: Timestamp) -> bool {
        self.role == Role::Editor || (self.token_writes && self.token_ends > now)
    }

    /// The copy is edited.
    pub fn note_edit(&mut self, now: Timestamp) {
        self.is_edited = true;
        self.is_tainted |= !self.may_write(now);
    }

    /// The copy goes over a new connection: who may write brings all of it, who may not brings nothing.
    const fn note_connection(&mut self) {
        self.is_tainted = !self.token_writes && self.is_edited;
    }

    /// A new copy.
    pub const fn begin_copy(&mut self) {
        (self.is_edited, self.is_tainted, self.is_stray) = (false, false, false);
    }

    /// Whether the copy may have what nobody else has.
    pub const fn is_tainted(&self) -> bool {
        self.is_tainted || self.is_stray
    }

    /// Whether the person can bring to others what the copy has.
    pub fn is_writer(&self) -> bool {
        self.role == Role::Editor && self.token_writes
    }
}

impl World {
    /// Somebody's role changes. A token that is there goes on as it is.
    pub fn change_role(&mut self, human: usize, amount: u64) {
        let access = &mut self.humans[human].access;
        access.role = match access.role {
            _ if amount.is_multiple_of(5) => Role::Nobody,
            Role::Editor => Role::Viewer,
            Role::Viewer | Role::Nobody => Role::Editor,
        };
        self.ledger.role_changes += 1;
        self.ledger.count("role changes");
    }

    /// A copy is about to go over a new connection.
    pub fn note_copy(&mut self, human: usize) {
        let person = &mut self.humans[human];
        person.access.note_connection();
        let (writes, has_no_epoch) = (person.access.token_writes, person.epoch.is_none());
        if writes && person.access.is_edited {
            for known in self.ledger.marks.values_mut() {
                known.erased |= known.hidden;
            }
        }
        person.access.is_stray |= has_no_epoch && !person.replica.extent().is_empty();
        for mark in person.replica.counts().into_keys() {
            if let Some(known) = self.ledger.marks.get_mut(&mark) {
                // What was written without the right to is brought once there is one.
                known.forbidden &= !writes;
                // A copy that does not know its epoch is merged into any (W11).
                known.stray |= has_no_epoch;
            }
        }
    }

    /// Who may only read has what is stored, and stores nothing. Once roles have changed, a copy may show
    /// what its author could no longer bring.
    pub fn check_reader_copy(&mut self, human: usize) -> Result<(), Violation> {
        let person = &self.humans[human];
        let own = format!("h{human}.");
        let has = person.replica.counts();
        let stored = self.d1.document(person.path).map(|stored| stored.replica.counts()).unwrap_or_default();
        let is_own = |mark: &&String| {
            mark.starts_with(&own) || self.ledger.marks.get(*mark).is_some_and(|known| known.stray)
        };
        let is_gone =
            |mark: &&String| self.ledger.marks.get(*mark).is_none_or(|known| known.erased || known.hidden);
        let extra = has.keys().find(|mark| !stored.contains_key(*mark) && !is_own(mark) && !is_gone(mark));
        let lacks = stored.keys().find(|mark| !has.contains_key(*mark) && !is_gone(mark));
        match (extra.filter(|_| self.ledger.role_changes == 0), lacks) {
            (None, None) => Ok(()),
            (extra, lacks) => {
                let what =
                    format!("person {human}, who may only read, has {extra:?} alone and lacks {lacks:?}");
                Err(Violation::new("D3", what))
            }
        }
    }
}

/// So many of a hundred people may only read.
const VIEWERS: u64 = 15;
