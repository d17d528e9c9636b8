import assert from "node:assert/strict";
import { PeerAuth } from "./peer_auth.ts";

const NOW = 1_800_000_000_000;

Deno.test("A.7 a header is good for its request, its secret and half a minute", async () => {
  const [ours, theirs] = [await PeerAuth.create("a".repeat(32)), await PeerAuth.create("b".repeat(32))];
  const header = await ours.sign("GET", "/ws/w/d?token=t", NOW);
  assert.match(header, /^1800000000\.[\w-]{43}$/);
  for (const apart of [-30_000, 0, 30_000]) {
    assert.equal(await ours.verify(header, "GET", "/ws/w/d?token=t", NOW + apart), true);
  }
  const bad: [PeerAuth, string, string, string, number][] = [
    [theirs, header, "GET", "/ws/w/d?token=t", NOW],
    [ours, header, "POST", "/ws/w/d?token=t", NOW],
    [ours, header, "GET", "/ws/v/d?token=t", NOW],
    [ours, header, "GET", "/ws/w/d?token=t", NOW + 31_000],
    [ours, header, "GET", "/ws/w/d?token=t", NOW - 31_000],
    [ours, header.replace("18", "17"), "GET", "/ws/w/d?token=t", NOW],
  ];
  for (
    const text of ["", ".", "1800000000.", "1800000000", `x${header}`, `${header}=`, `1e9.${"A".repeat(43)}`]
  ) {
    bad.push([ours, text, "GET", "/ws/w/d?token=t", NOW]);
  }
  for (const [auth, text, method, target, now] of bad) {
    assert.equal(
      await auth.verify(text, method, target, now),
      false,
      `${text} ${method} ${target} ${now - NOW}`,
    );
  }
});
