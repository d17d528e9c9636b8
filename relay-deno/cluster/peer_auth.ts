/**
 * How replicas know each other: an HMAC of a common secret over the time and the request, in a header (A.7).
 *
 * @module
 */

/** The header: `<unix seconds>.<HMAC-SHA256 in base64url>`. */
export const PEER_HEADER = "yrelay-peer";

/** Signs requests of this replica, and checks those of others. */
export class PeerAuth {
  readonly #key: CryptoKey;

  private constructor(key: CryptoKey) {
    this.#key = key;
  }

  /** Signs and checks with a secret. */
  static async create(secret: string): Promise<PeerAuth> {
    const bytes = new TextEncoder().encode(secret);
    return new PeerAuth(
      await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, [
        "sign",
        "verify",
      ]),
    );
  }

  /** The header's value for a request; `now` in ms. */
  async sign(method: string, target: string, now = Date.now()): Promise<string> {
    const seconds = Math.floor(now / 1000);
    const signature = await crypto.subtle.sign("HMAC", this.#key, signed(seconds, method, target));
    return `${seconds}.${new Uint8Array(signature).toBase64({ alphabet: "base64url", omitPadding: true })}`;
  }

  /** Whether a header is good for a request, and not of long ago. */
  async verify(header: string, method: string, target: string, now = Date.now()): Promise<boolean> {
    const [, time, code] = /^(\d{1,12})\.([\w-]{43})$/.exec(header) ?? [];
    if (time === undefined || code === undefined) return false;
    const seconds = Number(time);
    if (Math.abs(now / 1000 - seconds) > WINDOW) return false;
    try {
      const signature = Uint8Array.fromBase64(code, { alphabet: "base64url" });
      return await crypto.subtle.verify("HMAC", this.#key, signature, signed(seconds, method, target));
    } catch {
      // No base64 after all.
      return false;
    }
  }
}

function signed(seconds: number, method: string, target: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${seconds} ${method} ${target}`);
}

/** How far clocks of replicas may be apart, and how long a header that was overheard is good, in seconds. */
const WINDOW = 30;
