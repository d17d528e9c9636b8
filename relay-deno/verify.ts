/**
 * Signatures of scope tokens: Ed25519 by WebCrypto. What a token says is the core's business (A2).
 *
 * @module
 */

/** Tells whether a signature of a message is the Worker's. */
export type Verifier = (
  message: Uint8Array,
  signature: Uint8Array,
) => Promise<boolean>;

/** The public key cannot be used. */
export class KeyError extends Error {
  override readonly name = "KeyError";
}

/** A verifier for a public key of 32 bytes. Throws a {@link KeyError} for a key that proves nothing. */
export async function createVerifier(publicKey: Uint8Array<ArrayBuffer>): Promise<Verifier> {
  if (isSmallOrder(publicKey)) {
    throw new KeyError("the public key has a small order: anybody can make signatures that fit it");
  }
  let key: CryptoKey;
  try {
    key = await crypto.subtle.importKey("raw", publicKey, "Ed25519", false, ["verify"]);
  } catch {
    throw new KeyError("the public key is not an Ed25519 key");
  }
  return async (message, signature) => {
    try {
      // Copies, since what comes from the core is typed as if it might be shared memory.
      return await crypto.subtle.verify("Ed25519", key, new Uint8Array(signature), new Uint8Array(message));
    } catch {
      // A signature of another length, for one.
      return false;
    }
  };
}

/** Whether a key is an encoding, canonical or not, of one of the eight points of small order. */
function isSmallOrder(key: Uint8Array): boolean {
  // The top bit is the sign of x and does not matter here.
  const hex = [...key].map((byte, index) =>
    (index === 31 ? byte & 0x7f : byte).toString(16).padStart(2, "0")
  );
  return SMALL_ORDER.includes(hex.join(""));
}

/** The y coordinates of these points, little-endian, p = 2^255 - 19. */
const SMALL_ORDER = [
  "00".repeat(32),
  `01${"00".repeat(31)}`,
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  // p - 1, and 0 and 1 written as p and p + 1.
  `ec${"ff".repeat(30)}7f`,
  `ed${"ff".repeat(30)}7f`,
  `ee${"ff".repeat(30)}7f`,
];
