// What a Deno relay says of itself at this moment, read from its `/metrics`.
import { PATIENCE } from "./waiting.mjs";

/** Reads it from the relay at an address. */
export async function readMetrics(http) {
  const answer = await fetch(`${http}/metrics`, { signal: AbortSignal.timeout(PATIENCE) });
  const text = await answer.text();
  const series = (name) => [...text.matchAll(new RegExp(`^yrelay_${name}\\{(.*)\\} (\\S+)$`, "gm"))].map(([, labels, value]) => ({ labels, value: Number(value) }));
  return {
    /** The value of a series without further labels, which has to be there. */
    gauge: (name) => series(name)[0].value,
    /** A counter over all its labels; what never happened has none. */
    sum: (name) => series(name).reduce((all, { value }) => all + value, 0),
    /** A counter by one of its labels. */
    by: (name, label) => Object.fromEntries(series(name).map(({ labels, value }) => [new RegExp(`${label}="([^"]*)"`).exec(labels)[1], value])),
  };
}
