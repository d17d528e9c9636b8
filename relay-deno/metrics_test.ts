import assert from "node:assert/strict";
import { Metrics, renderMetrics } from "./metrics.ts";

const GAUGES = {
  connections: 3,
  partingConnections: 1,
  stuckBytes: 2,
  queuedBytes: 5,
  waitingBytes: 0,
  rooms: 1,
  unsavedAge: 1.5,
  spoolRows: 4,
  spoolRefusedRows: 0,
  spoolFailing: false,
  loopDelay: 0.002,
  residentBytes: 1e6,
  members: 2,
  proxiedConnections: 7,
  draining: true,
};

Deno.test("A.32 A.70 every name has help and a type, and every series the relay's label", () => {
  const metrics = new Metrics();
  metrics.framesIn = 7;
  Metrics.count(metrics.rejected, "rate_limited");
  Metrics.count(metrics.rejected, "rate_limited");
  Metrics.count(metrics.closed, "1009");
  const text = renderMetrics("deno-1", metrics, GAUGES);
  const series = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  for (const line of series) {
    assert.match(line, /^yrelay_[a-z_]+\{relay="deno-1"(,[a-z]+="[^"]+")?\} [\d.]+$/);
  }
  for (
    const line of [
      'yrelay_connections{relay="deno-1"} 3',
      'yrelay_queued_bytes{relay="deno-1"} 5',
      'yrelay_frames_total{relay="deno-1",direction="in"} 7',
      'yrelay_rejected_total{relay="deno-1",code="rate_limited"} 2',
      'yrelay_closed_total{relay="deno-1",code="1009"} 1',
      'yrelay_unsaved_age_seconds{relay="deno-1"} 1.5',
      'yrelay_draining{relay="deno-1"} 1',
    ]
  ) assert.ok(series.includes(line), line);
  const typed = text.match(/^# TYPE (\S+)/gm)?.map((line) => line.slice(7)) ?? [];
  assert.equal(new Set(typed).size, typed.length);
  for (const line of series) assert.ok(typed.includes(line.split("{")[0] ?? ""), line);
});
