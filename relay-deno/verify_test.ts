import assert from "node:assert/strict";
import { createVerifier, KeyError } from "./verify.ts";

const text = (value: string) => new TextEncoder().encode(value);

async function keys() {
  const pair = (await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"])) as CryptoKeyPair;
  const raw = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
  const sign = async (message: Uint8Array<ArrayBuffer>) =>
    new Uint8Array(await crypto.subtle.sign("Ed25519", pair.privateKey, message));
  return { raw, sign };
}

Deno.test("A2 a signature of the Worker's key is good, everything else is not", async () => {
  const { raw, sign } = await keys();
  const verify = await createVerifier(raw);
  const signature = await sign(text("claims"));
  assert.equal(await verify(text("claims"), signature), true);
  assert.equal(await verify(text("claimz"), signature), false);
  assert.equal(await verify(text("claims"), await (await keys()).sign(text("claims"))), false);
  for (const length of [0, 1, 63, 65, 1000]) {
    assert.equal(await verify(text("claims"), new Uint8Array(length)), false, `${length} bytes`);
  }
  const changed = signature.slice();
  changed[40] = (changed[40] ?? 0) ^ 1;
  assert.equal(await verify(text("claims"), changed), false);
});

Deno.test("A2 S + L, the other encoding of a good signature, is refused", async () => {
  const { raw, sign } = await keys();
  const verify = await createVerifier(raw);
  const signature = await sign(text("claims"));
  const order = 2n ** 252n + 27742317777372353535851937790883648493n;
  let s = order;
  for (let index = 63; index >= 32; index -= 1) {
    s += BigInt(signature[index] ?? 0) << BigInt((index - 32) * 8);
  }
  const other = signature.slice();
  for (let index = 32; index < 64; index += 1) other[index] = Number((s >> BigInt((index - 32) * 8)) & 255n);
  assert.equal(await verify(text("claims"), other), false);
});

Deno.test("a key of small order is refused at the start, with either sign", async () => {
  const hex = [
    "00".repeat(32),
    `01${"00".repeat(31)}`,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    `ec${"ff".repeat(30)}7f`,
    `ed${"ff".repeat(30)}7f`,
    `ee${"ff".repeat(30)}7f`,
  ];
  for (const encoding of hex) {
    const key = Uint8Array.from(encoding.match(/../g) ?? [], (byte) => parseInt(byte, 16));
    for (const sign of [0, 0x80]) {
      const signed = key.slice();
      signed[31] = (signed[31] ?? 0) | sign;
      await assert.rejects(createVerifier(signed), KeyError, encoding);
    }
  }
});

Deno.test("a key of another length is refused", async () => {
  await assert.rejects(createVerifier(new Uint8Array([1, 2, 3])), KeyError);
});
