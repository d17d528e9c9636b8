//! The relay walker of the client SDK in Rust: the same cells as `walker-table.ts` and the same moves
//! as `walker-moves.ts`. `tests/data/walker_table.json` holds the answers of the original to many
//! questions; a test here and one there give the same answers.

/// What the walker knows of its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// The entry in use, or to be tried next.
    pub index: usize,
    /// Abnormal closes in a row after an open.
    pub strikes: u64,
    /// Closes with 1012 in a row, with no sync in between.
    pub restarts: u64,
    /// Delayed tries in a row.
    pub failures: u32,
    /// Entries that were not tried since a connection last was stable, besides this one.
    pub fresh: usize,
    /// A token was called expired, and replaced, since the last sync.
    pub refreshed: bool,
    /// The earlier entry that the next probe is for.
    pub probe: usize,
}

/// Where it stands. Each state knows its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A socket is being opened.
    Connecting,
    /// Nobody wants a connection.
    Idle,
    /// The browser says that there is no network.
    Offline,
    /// The socket is open.
    Open,
    /// For good, with the reason.
    Stopped(&'static str),
    /// Both sides have everything, since then.
    Synced(i64),
    /// A delay runs.
    Waiting,
}

/// A state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Where it stands.
    pub phase: Phase,
    /// What it knows.
    pub at: Position,
}

/// What happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The socket ended after it was open.
    Closed {
        /// With this code.
        code: u16,
        /// The browser is offline.
        offline: bool,
    },
    /// No connection is wanted.
    Disconnect,
    /// The delay is over.
    Due,
    /// The socket failed before it was open.
    Failed(&'static str),
    /// There is no network.
    Offline,
    /// The socket is open.
    Opened,
    /// The probe's entry does not work.
    ProbeFailed,
    /// The probe's entry works.
    ProbeSynced,
    /// As `Start`, and the way out of `Stopped`.
    Restart,
    /// A connection is wanted.
    Start,
    /// The application refuses to go on.
    Stop(&'static str),
    /// Both sides have everything.
    Synced,
    /// There is no token; `true`: and there will be none.
    TokenFailed(bool),
    /// The network is back, or the page visible.
    Wake,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Effect {
    /// Make the probe's socket the one in use.
    AdoptProbe,
    /// Give the probe up.
    CancelProbe,
    /// Close the socket, or give up opening it.
    CloseSocket,
    /// Say `Due` after this many milliseconds.
    Connect(usize, f64),
    /// A relay was left for another one.
    Advance {
        /// The old entry.
        from: usize,
        /// The new one.
        to: usize,
        /// Why.
        trigger: &'static str,
    },
    /// All relays failed.
    CycleAllFailed,
    /// Open a socket to this entry.
    OpenSocket(usize),
    /// Try this entry beside the one in use, after so many milliseconds.
    Probe(usize, f64),
    /// Fetch another token; `true`: the old one must not be used again.
    RefreshToken(bool),
    /// Stopped for good.
    Stop(&'static str),
}

/// Times in milliseconds, and the list.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Entries.
    pub count: usize,
    /// The pinned one.
    pub pinned: Option<usize>,
    /// First ceiling of the backoff.
    pub base_ms: f64,
    /// Last ceiling of the backoff.
    pub cap_ms: f64,
    /// The least delay of a try that is delayed.
    pub min_delay_ms: f64,
    /// Over which time clients of a relay that restarts come back.
    pub restart_spread_ms: f64,
    /// The least delay after 4429.
    pub rate_limit_ms: f64,
    /// How soon to try after `Wake`, at most.
    pub wake_spread_ms: f64,
    /// When a connection counts as stable.
    pub stable_ms: i64,
    /// The mean time between two probes.
    pub probe_ms: f64,
}

impl Config {
    /// The times of `WALKER_TIMES`.
    #[must_use]
    pub const fn new(count: usize, pinned: Option<usize>) -> Self {
        Self {
            count,
            pinned,
            base_ms: 2_000.0,
            cap_ms: 30_000.0,
            min_delay_ms: 100.0,
            restart_spread_ms: 6_000.0,
            rate_limit_ms: 5_000.0,
            wake_spread_ms: 1_000.0,
            stable_ms: 10_000,
            probe_ms: 300_000.0,
        }
    }
}

/// What a step takes from outside.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The list and the times.
    pub config: &'a Config,
    /// Wall time in milliseconds.
    pub now: i64,
    /// From 0 to below 1.
    pub random: f64,
}

type Step = (State, Vec<Effect>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Delay {
    Backoff,
    Limited,
    Refresh,
    Restart,
    Wake,
}

enum CloseClass {
    Abnormal,
    Clean,
    Expired,
    Limited,
    Restart,
    Stop(&'static str),
}

/// The state before anything happened.
#[must_use]
pub fn initial(config: &Config) -> State {
    let at = Position { index: config.pinned.unwrap_or(0), ..Position::default() };
    State { phase: Phase::Idle, at }
}

/// The one transition function: `TABLE` of `walker-table.ts`, whose empty cells are the last arm.
#[must_use]
pub fn step(state: State, event: Event, input: Input<'_>) -> Step {
    let at = state.at;
    match (state.phase, event) {
        (Phase::Idle, Event::Restart | Event::Start) | (Phase::Stopped(_), Event::Restart) => {
            connect_fresh(at, input)
        }
        (
            Phase::Idle | Phase::Waiting | Phase::Connecting | Phase::Open | Phase::Offline,
            Event::Stop(why),
        ) => stop(at, why),
        (Phase::Waiting | Phase::Connecting | Phase::Open | Phase::Offline, Event::Disconnect) => {
            park(at, Phase::Idle)
        }
        (Phase::Waiting, Event::Due) => {
            (State { phase: Phase::Connecting, at }, vec![Effect::OpenSocket(at.index)])
        }
        (Phase::Waiting | Phase::Connecting, Event::Offline) => park(at, Phase::Offline),
        (Phase::Waiting | Phase::Offline, Event::Wake) => retry(at, input, Delay::Wake),
        (Phase::Connecting, Event::Failed(trigger)) => move_on(at, trigger, input),
        (Phase::Connecting, Event::Opened) => (State { phase: Phase::Open, at }, Vec::new()),
        (Phase::Connecting, Event::TokenFailed(true)) => stop(at, "token_refused"),
        (Phase::Connecting, Event::TokenFailed(false)) => retry(at, input, Delay::Backoff),
        (Phase::Open, Event::Closed { code, offline }) => close(at, code, offline, input),
        (Phase::Open, Event::Synced) => synced(at, input),
        (Phase::Synced(since), Event::Closed { code, offline }) => {
            no_probe(close(settle(at, since, input), code, offline, input))
        }
        (Phase::Synced(_), Event::Disconnect) => no_probe(park(at, Phase::Idle)),
        (Phase::Synced(since), Event::ProbeFailed) => {
            synced(Position { probe: at.probe + 1, ..at }, Input { now: since, ..input })
        }
        (Phase::Synced(_), Event::ProbeSynced) => move_back(state, input),
        (Phase::Synced(_), Event::Stop(why)) => no_probe(stop(at, why)),
        _ => (state, Vec::new()),
    }
}

fn no_probe((state, effects): Step) -> Step {
    (state, [Effect::CancelProbe].into_iter().chain(effects).collect())
}

fn connect_fresh(at: Position, input: Input<'_>) -> Step {
    let fresh = fresh_entries(input.config);
    let begun = Position { strikes: 0, restarts: 0, failures: 0, fresh, refreshed: false, ..at };
    (State { phase: Phase::Waiting, at: begun }, vec![Effect::Connect(at.index, 0.0)])
}

fn park(at: Position, phase: Phase) -> Step {
    (State { phase, at }, vec![Effect::CloseSocket])
}

fn stop(at: Position, why: &'static str) -> Step {
    (State { phase: Phase::Stopped(why), at }, vec![Effect::CloseSocket, Effect::Stop(why)])
}

fn retry(at: Position, input: Input<'_>, delay: Delay) -> Step {
    let config = input.config;
    let backoff = config.cap_ms.min(config.base_ms * 2_f64.powi(at.failures.cast_signed()));
    let (least, ceiling) = match delay {
        Delay::Backoff => (config.min_delay_ms, backoff),
        Delay::Limited => (config.rate_limit_ms, config.rate_limit_ms + backoff),
        Delay::Refresh => (config.min_delay_ms, config.base_ms),
        Delay::Restart => (config.min_delay_ms, config.restart_spread_ms),
        Delay::Wake => (config.min_delay_ms, config.wake_spread_ms),
    };
    let after = least + input.random * (ceiling - least).max(0.0);
    let counted = matches!(delay, Delay::Backoff | Delay::Limited);
    let next = Position { failures: at.failures + u32::from(counted), ..at };
    (State { phase: Phase::Waiting, at: next }, vec![Effect::Connect(at.index, after)])
}

fn move_on(at: Position, trigger: &'static str, input: Input<'_>) -> Step {
    let config = input.config;
    let mut effects = match trigger {
        "abnormal_closes" => Vec::new(),
        _ => vec![Effect::RefreshToken(false)],
    };
    let cleared = Position { strikes: 0, restarts: 0, ..at };
    if config.pinned.is_some() {
        return after(effects, retry(cleared, input, Delay::Backoff));
    }
    let index = (at.index + 1) % config.count;
    if index != at.index {
        effects.push(Effect::Advance { from: at.index, to: index, trigger });
    }
    if index == 0 {
        effects.push(Effect::CycleAllFailed);
    }
    let next = Position { index, ..cleared };
    if at.fresh == 0 {
        return after(effects, retry(next, input, Delay::Backoff));
    }
    effects.push(Effect::Connect(index, 0.0));
    (State { phase: Phase::Waiting, at: Position { fresh: at.fresh - 1, ..next } }, effects)
}

fn close(at: Position, code: u16, offline: bool, input: Input<'_>) -> Step {
    match classify(code) {
        CloseClass::Clean => retry(Position { strikes: 0, ..at }, input, Delay::Backoff),
        CloseClass::Limited => retry(at, input, Delay::Limited),
        CloseClass::Expired if at.refreshed => end(at, "token_rejected"),
        CloseClass::Expired => {
            let next = retry(Position { refreshed: true, ..at }, input, Delay::Refresh);
            after(vec![Effect::RefreshToken(true)], next)
        }
        CloseClass::Restart => {
            let restarted = Position { restarts: at.restarts + 1, ..at };
            match at.restarts {
                0 => retry(restarted, input, Delay::Restart),
                _ => strike(restarted, offline, input),
            }
        }
        CloseClass::Stop(why) => end(at, why),
        CloseClass::Abnormal => strike(at, offline, input),
    }
}

fn synced(at: Position, input: Input<'_>) -> Step {
    let probe = if at.index == 0 { 0 } else { at.probe % at.index };
    let next = Position { restarts: 0, refreshed: false, probe, ..at };
    let state = State { phase: Phase::Synced(input.now), at: next };
    if at.index == 0 || input.config.pinned.is_some() {
        return (state, Vec::new());
    }
    (state, vec![Effect::Probe(probe, input.config.probe_ms * (0.5 + input.random))])
}

fn move_back(state: State, input: Input<'_>) -> Step {
    let at = state.at;
    if at.index == 0 || input.config.pinned.is_some() {
        return (state, Vec::new());
    }
    let fresh = fresh_entries(input.config);
    let next = Position { index: at.probe, strikes: 0, failures: 0, fresh, probe: 0, ..at };
    let moved = Effect::Advance { from: at.index, to: at.probe, trigger: "recovered" };
    after(vec![moved, Effect::AdoptProbe], synced(next, input))
}

/// Before a synced connection's close is judged: if it was stable, the outage before it is over.
fn settle(at: Position, since: i64, input: Input<'_>) -> Position {
    if input.now - since < input.config.stable_ms {
        return at;
    }
    Position { failures: 0, fresh: fresh_entries(input.config), ..at }
}

fn strike(at: Position, offline: bool, input: Input<'_>) -> Step {
    if offline {
        return retry(at, input, Delay::Backoff);
    }
    let strikes = at.strikes + 1;
    if strikes < STRIKES {
        return retry(Position { strikes, ..at }, input, Delay::Backoff);
    }
    move_on(at, "abnormal_closes", input)
}

fn end(at: Position, why: &'static str) -> Step {
    (State { phase: Phase::Stopped(why), at }, vec![Effect::Stop(why)])
}

fn after(mut effects: Vec<Effect>, (state, more): Step) -> Step {
    effects.extend(more);
    (state, effects)
}

fn fresh_entries(config: &Config) -> usize {
    if config.pinned.is_none() { config.count - 1 } else { 0 }
}

/// `classifyClose` of `close-codes.ts`.
fn classify(code: u16) -> CloseClass {
    match code {
        1000 => CloseClass::Clean,
        1009 => CloseClass::Stop("frame_too_large"),
        1012 => CloseClass::Restart,
        4400 => CloseClass::Stop("protocol_violation"),
        4401 => CloseClass::Expired,
        4403 => CloseClass::Stop("forbidden"),
        4404 => CloseClass::Stop("deleted"),
        4409 => CloseClass::Stop("epoch_changed"),
        4413 => CloseClass::Stop("document_too_large"),
        4429 => CloseClass::Limited,
        code if (4400..4500).contains(&code) => CloseClass::Stop("refused"),
        _ => CloseClass::Abnormal,
    }
}

/// Abnormal closes in a row after which the walker advances (S1).
const STRIKES: u64 = 2;
