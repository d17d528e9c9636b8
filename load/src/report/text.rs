//! The report of a run for a person.

use serde_json::Value;

/// So many failed clients are shown one by one.
const SHOWN_FAILURES: usize = 10;

/// Everything but the verdict.
pub fn text(json: &Value) -> String {
    let mut lines = vec![
        fill(
            json,
            "{clients} clients, {documents} documents, {seconds} s at {ratePerSecond}/s each, relay {relay}",
        ),
        fill(json, "writes        {writes} of {expectedWrites} ({writtenOffline} while not in sync)"),
        fill(
            json,
            "deliveries    {deliveries/live} live, {deliveries/bySync} by sync, of {deliveries/expected}",
        ),
        fill(json, "awareness     {awareness/sent} sent, {awareness/received} received"),
    ];
    lines.extend(latency(json));
    lines.extend([
        fill(json, "reconnects    {reconnects} by close code; refused: {refusals}"),
        fill(json, "disconnected  {disconnectedSeconds} s in all, availability {availability}"),
        fill(
            json,
            "stored        {stored/found} found, {stored/missing} missing, {stored/unexpected} unexpected, \
             of {stored/writers} writers",
        ),
    ]);
    lines.extend(relay_process(json));
    lines.push(fill(json, "not converged {documentsApart}"));
    let failures = json["failedClients"].as_array().map(Vec::as_slice).unwrap_or_default();
    lines.extend(failures.iter().take(SHOWN_FAILURES).map(|one| fill(one, "client {client}: {why}")));
    lines.join("\n")
}

fn latency(json: &Value) -> Vec<String> {
    let latency = &json["latencyMs"];
    if latency.is_null() {
        return vec!["latency       no samples".to_owned()];
    }
    vec![
        fill(latency, "latency       p50 {p50} ms, p95 {p95} ms, p99 {p99} ms, max {max} ms"),
        fill(
            latency,
            "              {samples} samples, {dropped} dropped, to {digits} digits; {aboveBound} above \
             {boundMs} ms count as that",
        ),
    ]
}

fn relay_process(json: &Value) -> Vec<String> {
    let process = &json["relayProcess"];
    if process.is_null() {
        return vec![fill(json, "relay         no numbers of its own: {relayProcessNote}")];
    }
    vec![
        fill(
            process,
            "relay         {samples} samples ({failedScrapes} failed): {peakResidentMiB} MiB, loop late by \
             {loopDelayMs/longest} ms (p99 {loopDelayMs/p99} ms), {highestQueuedBytes} bytes queued at most",
        ),
        fill(
            process,
            "              frames {frames/in} in, {frames/out} out; {flushErrors} flush errors, API errors \
             {apiErrors}, rejected {rejected}",
        ),
    ]
}

/// Puts values in the place of their `{paths}`.
fn fill(json: &Value, template: &str) -> String {
    let mut parts = template.split('{');
    let mut line = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (path, rest) = part.split_once('}').unwrap_or((part, ""));
        line += &shown(json.pointer(&format!("/{path}")).unwrap_or(&Value::Null));
        line += rest;
    }
    line
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "?".to_owned(),
        Value::Number(number) if number.is_f64() => rounded(number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

/// To three decimals, none of them a zero at the end.
pub fn rounded(number: f64) -> String {
    ((number * 1000.0).round() / 1000.0).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_stand_where_their_paths_were() {
        let json = json!({ "a": { "b": 1.23456 }, "c": "x", "d": { "1006": 2 } });
        assert_eq!(fill(&json, "{a/b} ms of {c}, {d}; {e}."), "1.235 ms of x, {\"1006\":2}; ?.");
        assert_eq!(rounded(2.0), "2");
    }

    #[test]
    fn a_relay_without_numbers_is_told_with_the_cause() {
        let text = text(&json!({ "relayProcess": null, "relayProcessNote": "it answered 404" }));
        assert!(text.contains("\nrelay         no numbers of its own: it answered 404\n"), "{text}");
    }
}
