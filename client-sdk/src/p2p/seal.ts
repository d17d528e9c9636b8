// Signals are sealed with the workspace's peer secret: relays and the API see neither addresses nor
// fingerprints, and nobody without the secret can answer an offer (A5).

/** What peers tell each other to connect. */
export interface Signal {
  /** The peer's id, and the run of it: a page that was reloaded has another. */
  readonly from: string;
  readonly run: string;
  /** `null`: whoever hears it. */
  readonly to: string | null;
  readonly kind: "answer" | "hello" | "offer";
  /** The connection that an offer begins and an answer belongs to. */
  readonly attempt?: string;
  readonly sdp?: string;
}

/** AES-GCM with a fresh nonce for each signal. */
export class Seal {
  readonly #crypto: Crypto;
  readonly #key: Promise<CryptoKey>;

  /** The secret has the strength of a key, so it is stretched by HKDF and not by a slow hash. */
  constructor(crypto: Crypto, secret: string) {
    this.#crypto = crypto;
    const hkdf = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info: encode("yrelay signals") };
    this.#key = crypto.subtle
      .importKey("raw", encode(secret), "HKDF", false, ["deriveKey"])
      .then((base) => crypto.subtle.deriveKey(hkdf, base, { name: "AES-GCM", length: 256 }, false, ["decrypt", "encrypt"]));
  }

  async close(signal: Signal): Promise<string> {
    const iv = this.#crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
    const sealed = await this.#crypto.subtle.encrypt({ name: "AES-GCM", iv }, await this.#key, encode(JSON.stringify(signal)));
    return btoa(String.fromCharCode(...iv, ...new Uint8Array(sealed)));
  }

  /** `null` for what was not sealed with this secret. */
  async open(text: unknown): Promise<Signal | null> {
    if (typeof text !== "string") return null;
    try {
      const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
      const iv = bytes.subarray(0, NONCE_BYTES);
      const json = await this.#crypto.subtle.decrypt({ name: "AES-GCM", iv }, await this.#key, bytes.subarray(NONCE_BYTES));
      return JSON.parse(new TextDecoder().decode(json)) as Signal;
    } catch {
      return null;
    }
  }
}

/** The nonce length that AES-GCM is made for. */
const NONCE_BYTES = 12;

function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}
