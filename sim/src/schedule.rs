//! What is done to a world, step by step: drawn from a seed, printed as text and read back.

use std::fmt;

use crate::random::Random;

/// What a step does. `who` and `amount` are numbers that each kind reads in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An agent appends to a document.
    Append,
    /// A document is compacted, as after many updates.
    Compact,
    /// A person's connection breaks without a word.
    Cut,
    /// A reader's stream breaks.
    CutStream,
    /// D1 reports failures of batches that it has committed.
    D1After,
    /// D1 fails before it commits.
    D1Before,
    /// D1 does not answer in time.
    D1Stall,
    /// An agent deletes a document, or all of them.
    Delete,
    /// An agent deletes the workspace.
    DeleteWorkspace,
    /// The Deno relay is killed and started again.
    DenoCrash,
    /// The Deno relay cannot be reached.
    DenoDown,
    /// The Deno relay is asked to stop, and started again.
    DenoDrain,
    /// The Durable Object is lost with its sockets.
    DoCrash,
    /// The Durable Object cannot be reached.
    DoDown,
    /// The WASM instance is reset under the Durable Object (D1b).
    DoReset,
    /// A person writes.
    Edit,
    /// A person removes something.
    Erase,
    /// A person asks for a receipt.
    Flush,
    /// The Worker's answers get lost.
    HttpLost,
    /// An agent counts up a record.
    Increment,
    /// A person comes back.
    Join,
    /// A person leaves.
    Leave,
    /// An agent moves a document, or all of them.
    Move,
    /// Nothing, for a while.
    Pause,
    /// An agent writes a record.
    Put,
    /// A document's content is replaced: a new epoch.
    Replace,
    /// An agent edits a document without Yjs.
    Rewrite,
    /// Somebody's role changes.
    Role,
    /// A person's connection takes nothing for a while.
    Stall,
    /// A person deletes letters.
    Strike,
    /// Old rows of the log are removed.
    Sweep,
    /// What the Worker tells the room gets lost (R3).
    TellLost,
    /// An agent changes a tree of records.
    Tree,
    /// A person types letters.
    Type,
    /// A person's application tells awareness.
    Wave,
}

/// Every kind, how often it is drawn, and its name in a trace.
const KINDS: [(Kind, u64, &str); 35] = [
    (Kind::Append, 5, "append"),
    (Kind::Compact, 4, "compact"),
    (Kind::Cut, 4, "cut"),
    (Kind::CutStream, 4, "cut-stream"),
    (Kind::D1After, 2, "d1-after"),
    (Kind::D1Before, 2, "d1-before"),
    (Kind::D1Stall, 2, "d1-stall"),
    (Kind::Delete, 2, "delete"),
    (Kind::DeleteWorkspace, 1, "delete-workspace"),
    (Kind::DenoCrash, 1, "deno-crash"),
    (Kind::DenoDown, 1, "deno-down"),
    (Kind::DenoDrain, 1, "deno-drain"),
    (Kind::DoCrash, 1, "do-crash"),
    (Kind::DoDown, 2, "do-down"),
    (Kind::DoReset, 2, "do-reset"),
    (Kind::Edit, 30, "edit"),
    (Kind::Erase, 5, "erase"),
    (Kind::Flush, 10, "flush"),
    (Kind::HttpLost, 2, "http-lost"),
    (Kind::Increment, 4, "increment"),
    (Kind::Join, 6, "join"),
    (Kind::Leave, 3, "leave"),
    (Kind::Move, 2, "move"),
    (Kind::Pause, 4, "pause"),
    (Kind::Put, 6, "put"),
    (Kind::Replace, 2, "replace"),
    (Kind::Rewrite, 8, "rewrite"),
    (Kind::Role, 1, "role"),
    (Kind::Stall, 3, "stall"),
    (Kind::Strike, 8, "strike"),
    (Kind::Sweep, 2, "sweep"),
    (Kind::TellLost, 2, "tell-lost"),
    (Kind::Tree, 14, "tree"),
    (Kind::Type, 12, "type"),
    (Kind::Wave, 6, "wave"),
];

/// One thing that is done to a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Milliseconds after the step before.
    pub wait: u64,
    /// What.
    pub kind: Kind,
    /// To whom, modulo how many there are.
    pub who: u64,
    /// How much, or how long in milliseconds.
    pub amount: u64,
    /// Chance begins anew here with this number, so that leaving a step out changes little else.
    pub draw: u64,
}

/// All that is done to the world of a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Says who is in the world.
    pub seed: u64,
    /// In order.
    pub steps: Vec<Step>,
}

impl Schedule {
    /// Draws the schedule of a seed. Each leaves some kinds out, so that the others meet more often.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let kinds: Vec<(Kind, u64)> = KINDS
            .iter()
            .filter(|(kind, ..)| random.percent(share(*kind)))
            .map(|(kind, weight, _)| (*kind, *weight))
            .collect();
        let total: u64 = kinds.iter().map(|(_, weight)| weight).sum();
        let count = MIN_STEPS + random.below(MAX_STEPS - MIN_STEPS);
        let steps = (0..count).map(|_| draw_step(&mut random, &kinds, total)).collect();
        Self { seed, steps }
    }

    /// Reads a trace.
    ///
    /// # Errors
    /// The line that is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let seed =
            lines.next().and_then(|line| line.strip_prefix("seed ")).and_then(|seed| seed.parse().ok());
        let seed = seed.ok_or("a trace begins with `seed N`")?;
        let steps = lines
            .map(|line| parse_step(line).ok_or_else(|| format!("no step: `{line}`")))
            .collect::<Result<_, _>>()?;
        Ok(Self { seed, steps })
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        for Step { wait, kind, who, amount, draw } in &self.steps {
            writeln!(f, "{wait} {} {who} {amount} {draw:x}", name(*kind))?;
        }
        Ok(())
    }
}

fn draw_step(random: &mut Random, kinds: &[(Kind, u64)], total: u64) -> Step {
    let mut ticket = random.below(total);
    let mut chosen = Kind::Edit;
    for (kind, weight) in kinds {
        chosen = *kind;
        if ticket < *weight {
            break;
        }
        ticket -= weight;
    }
    let wait = match random.below(10) {
        0..4 => random.below(30),
        4..8 => random.below(1_500),
        _ => random.below(5_000),
    };
    let amount = match chosen {
        Kind::Pause => [3_000, 12_000, 45_000, 200_000][random.index(4)],
        Kind::Stall => 500 + random.below(8_000),
        _ => random.below(12_000),
    };
    Step { wait, kind: chosen, who: random.below(64), amount, draw: random.draw() }
}

/// In how many of a hundred worlds a kind of step is drawn.
const fn share(kind: Kind) -> u64 {
    match kind {
        Kind::Edit | Kind::Flush | Kind::Join => 100,
        // Hardly anything happens any more once it is done.
        Kind::DeleteWorkspace => 8,
        // People who are sent away write nothing: most worlds are about those who stay.
        Kind::Delete | Kind::Move => 35,
        _ => 65,
    }
}

fn name(kind: Kind) -> &'static str {
    KINDS.iter().find(|(known, ..)| *known == kind).map_or("", |(_, _, name)| name)
}

fn parse_step(line: &str) -> Option<Step> {
    let mut words = line.split_whitespace();
    let wait = words.next()?.parse().ok()?;
    let word = words.next()?;
    let kind = KINDS.iter().find(|(.., name)| *name == word)?.0;
    let who = words.next()?.parse().ok()?;
    let amount = words.next()?.parse().ok()?;
    let draw = u64::from_str_radix(words.next()?, 16).ok()?;
    Some(Step { wait, kind, who, amount, draw })
}

/// A world is long enough for faults to meet, and short enough that thousands run in minutes.
const MIN_STEPS: u64 = 40;
const MAX_STEPS: u64 = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_reads_back_as_it_was() {
        let schedule = Schedule::draw(7);
        assert_eq!(Schedule::parse(&schedule.to_string()), Ok(schedule));
    }

    #[test]
    fn what_is_no_trace_is_named() {
        assert!(Schedule::parse("").is_err());
        assert_eq!(Schedule::parse("seed 1\n5 fly 0 0 0"), Err("no step: `5 fly 0 0 0`".to_owned()));
    }

    #[test]
    fn every_kind_has_its_place() {
        for (kind, weight, word) in KINDS {
            assert_eq!(name(kind), word);
            assert!(weight > 0);
        }
    }
}
