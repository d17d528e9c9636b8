//! Receipts of a person's edits (W8), after `receipts.ts`.

use serde_json::Value;

use crate::checks::Violation;
use crate::network::{ConnectionId, Data};
use crate::world::{Event, World};

impl World {
    /// A person wants a receipt after a while.
    pub fn ask_receipt(&mut self, human: usize, after: u64) {
        let wish = self.number();
        self.humans[human].receipt_wish = wish;
        self.at(self.now + after, Event::AskReceipt(human, wish));
    }

    /// The while is over.
    pub fn ask_receipt_now(&mut self, human: usize, wish: u64) {
        let person = &mut self.humans[human];
        if person.receipt_wish != wish || !person.synced || person.asked.is_some() {
            return;
        }
        let Some(connection) = person.connection else { return };
        person.flushes += 1;
        let id = person.flushes;
        person.asked = Some((id, person.marks.len()));
        self.send_to_relay(connection, Data::Text(format!(r#"{{"type":"flush","id":{id}}}"#)));
    }

    /// A text frame arrives at a person.
    pub fn human_is_told(&mut self, human: usize, text: &str) {
        let Some((told, covered)) = self.answer_to(human, text) else { return };
        let person = &mut self.humans[human];
        person.asked = None;
        if told["type"] == "receipt" {
            let epoch = told["epoch"].as_u64().unwrap_or(0);
            if epoch > 0 {
                person.epoch = Some(epoch);
            }
            for mark in &covered {
                if let Some(known) = self.ledger.marks.get_mut(mark) {
                    known.saved = Some(epoch).filter(|epoch| *epoch > 0);
                }
            }
            self.ledger.count(if covered.is_empty() { "empty receipts" } else { "receipts" });
        } else {
            self.ledger.count("failed flushes");
            let wait = 500 + self.random.below(2_000);
            self.ask_receipt(human, wait);
        }
    }

    /// W8: looks at a receipt when the relay gives it, since later the document may be another one.
    pub fn check_answer(&mut self, human: usize, id: ConnectionId, text: &str) -> Result<(), Violation> {
        if self.humans[human].connection != Some(id) {
            return Ok(());
        }
        match self.answer_to(human, text) {
            Some((told, covered)) if told["type"] == "receipt" => {
                let (path, epoch) = (self.humans[human].path, told["epoch"].as_u64().unwrap_or(0));
                self.ledger.check_receipt(&mut self.d1, path, epoch, &covered)
            }
            _ => Ok(()),
        }
    }

    /// The answer to the flush that waits, with what it covers.
    fn answer_to(&self, human: usize, text: &str) -> Option<(Value, Vec<String>)> {
        let told: Value = serde_json::from_str(text).ok()?;
        let person = &self.humans[human];
        let (id, count) = person.asked?;
        let is_answer = told["type"] == "receipt" || told["type"] == "flush_failed";
        (is_answer && told["id"].as_u64() == Some(id)).then(|| (told, person.marks[..count].to_vec()))
    }
}
