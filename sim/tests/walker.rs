//! The simulator's walker gives the answers of the client SDK's. The data is written and checked by
//! `client-sdk/src/walker-data.test.ts`.

use serde_json::{Value, json};
use yrelay_sim::people::walker::{Config, Effect, Event, Input, Phase, Position, State, step};

const DATA: &str = include_str!("../../tests/data/walker_table.json");
const LABELS: [&str; 3] = ["a", "b", "c"];
const NOW: i64 = 1_000_000;

#[test]
fn s1_the_walker_is_that_of_the_client_sdk() {
    let cases: Vec<Value> = serde_json::from_str(DATA).expect("JSON");
    for case in &cases {
        let config = Config::new(LABELS.len(), case["pinned"].as_u64().map(|entry| entry as usize));
        let input = Input { config: &config, now: NOW, random: 0.5 };
        let (then, effects) = step(state_of(&case["state"]), event_of(&case["event"]), input);
        let effects: Vec<Value> = effects.iter().map(show_effect).collect();
        let empty = json!([]);
        let wanted = match case.get("then") {
            Some(then) => (then, &case["effects"]),
            None => (&case["state"], &empty),
        };
        assert_eq!((&show_state(then), &json!(effects)), wanted, "{case}");
    }
    assert!(cases.len() > 900, "{} cases", cases.len());
}

fn state_of(value: &Value) -> State {
    let number = |name: &str| value["at"][name].as_u64().expect("a number");
    let at = Position {
        index: number("index") as usize,
        strikes: number("strikes"),
        restarts: number("restarts"),
        failures: number("failures") as u32,
        fresh: number("fresh") as usize,
        refreshed: value["at"]["refreshed"] == true,
        probe: number("probe") as usize,
    };
    let phase = match value["kind"].as_str().expect("a kind") {
        "connecting" => Phase::Connecting,
        "idle" => Phase::Idle,
        "offline" => Phase::Offline,
        "open" => Phase::Open,
        "stopped" => Phase::Stopped(word(&value["reason"])),
        "synced" => Phase::Synced(value["since"].as_i64().expect("a time")),
        "waiting" => Phase::Waiting,
        other => panic!("a state that the simulator lacks: {other}"),
    };
    State { phase, at }
}

fn show_state(State { phase, at }: State) -> Value {
    let position = json!({
        "index": at.index, "strikes": at.strikes, "restarts": at.restarts, "failures": at.failures,
        "fresh": at.fresh, "refreshed": at.refreshed, "probe": at.probe,
    });
    match phase {
        Phase::Connecting => json!({ "kind": "connecting", "at": position }),
        Phase::Idle => json!({ "kind": "idle", "at": position }),
        Phase::Offline => json!({ "kind": "offline", "at": position }),
        Phase::Open => json!({ "kind": "open", "at": position }),
        Phase::Stopped(reason) => json!({ "kind": "stopped", "at": position, "reason": reason }),
        Phase::Synced(since) => json!({ "kind": "synced", "at": position, "since": since }),
        Phase::Waiting => json!({ "kind": "waiting", "at": position }),
    }
}

fn event_of(value: &Value) -> Event {
    match value["kind"].as_str().expect("a kind") {
        "closed" => Event::Closed {
            code: value["code"].as_u64().expect("a code") as u16,
            offline: value["offline"] == true,
        },
        "disconnect" => Event::Disconnect,
        "due" => Event::Due,
        "failed" => Event::Failed(word(&value["trigger"])),
        "offline" => Event::Offline,
        "opened" => Event::Opened,
        "probe_failed" => Event::ProbeFailed,
        "probe_synced" => Event::ProbeSynced,
        "restart" => Event::Restart,
        "start" => Event::Start,
        "stop" => Event::Stop(word(&value["reason"])),
        "synced" => Event::Synced,
        "token_failed" => Event::TokenFailed(value["final"] == true),
        "wake" => Event::Wake,
        other => panic!("an event that the simulator lacks: {other}"),
    }
}

fn show_effect(effect: &Effect) -> Value {
    match *effect {
        Effect::AdoptProbe => json!({ "kind": "adoptProbe" }),
        Effect::Advance { from, to, trigger } => json!({ "kind": "emit", "event": {
            "name": "relay_advance", "fromLabel": LABELS[from], "toLabel": LABELS[to], "trigger": trigger, "at": NOW,
        }}),
        Effect::CancelProbe => json!({ "kind": "cancelProbe" }),
        Effect::CloseSocket => json!({ "kind": "closeSocket" }),
        Effect::Connect(index, after) => {
            json!({ "kind": "connect", "index": index, "afterMs": after as u64 })
        }
        Effect::CycleAllFailed => json!({ "kind": "emit", "event": {
            "name": "relay_cycle_all_failed", "labels": LABELS, "at": NOW,
        }}),
        Effect::OpenSocket(index) => json!({ "kind": "openSocket", "index": index }),
        Effect::Probe(index, after) => json!({ "kind": "probe", "index": index, "afterMs": after as u64 }),
        Effect::RefreshToken(required) => json!({ "kind": "refreshToken", "required": required }),
        Effect::Stop(reason) => json!({ "kind": "stop", "reason": reason }),
    }
}

/// The walker's words live as long as the program; so do those of a test.
fn word(value: &Value) -> &'static str {
    value.as_str().expect("a word").to_owned().leak()
}
