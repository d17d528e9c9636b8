// A WebSocket client that speaks in frames: it keeps everything that it was sent, and every wait
// has a limit.
import WebSocket from "ws";
import { PATIENCE, until, within } from "./waiting.mjs";
import { reset } from "./reset.mjs";

/** The relay refused the upgrade: `status`, `headers` and `body` of its answer. */
export class Refused extends Error {
  constructor(response, body) {
    super(`the upgrade was answered with ${response.statusCode}: ${body}`);
    this.status = response.statusCode;
    this.headers = response.headers;
    this.body = body;
  }
}

export class FrameClient {
  /** Binary frames so far, as hex. */
  frames = [];
  /** Text frames so far. */
  texts = [];
  /** `{code, reason}` once it is closed. */
  closed;
  #read = 0;
  #readTexts = 0;

  /**
   * Connects.
   *
   * @param {string} url with the token, unless that is in `protocols`
   * @param {object} [options] of the npm package `ws`, and `protocols`
   */
  static async open(url, { protocols = [], ...options } = {}) {
    const socket = new WebSocket(url, protocols, { perMessageDeflate: false, ...options });
    const client = new FrameClient(socket);
    const opened = new Promise((settle, reject) => {
      socket.once("open", settle);
      socket.once("error", reject);
      socket.once("unexpected-response", (_, response) => {
        let body = "";
        response.on("data", (chunk) => (body += chunk));
        response.on("end", () => reject(new Refused(response, body)));
      });
    });
    await within(opened, "a socket opens").catch((error) => {
      socket.terminate();
      throw error;
    });
    return client;
  }

  constructor(socket) {
    this.socket = socket;
    socket.on("error", () => {});
    socket.on("message", (data, isBinary) => {
      if (isBinary) this.frames.push(data.toString("hex"));
      else this.texts.push(data.toString());
    });
    this.ended = new Promise((settle) => {
      socket.on("close", (code, reason) => {
        this.closed = { code, reason: reason.toString() };
        settle(this.closed);
      });
    });
  }

  /** Sends hex or bytes as a binary frame. */
  send(frame) {
    this.socket.send(typeof frame === "string" ? Buffer.from(frame, "hex") : frame, { binary: true });
  }

  /** Sends a text frame; an object as JSON. */
  say(text) {
    this.socket.send(typeof text === "string" ? text : JSON.stringify(text));
  }

  /** The next binary frame that fits; frames before it count as read. */
  async next(fits = () => true, what = "a frame", ms = PATIENCE) {
    return until(() => {
      while (this.#read < this.frames.length) {
        const frame = this.frames[this.#read++];
        if (fits(frame)) return frame;
      }
      if (this.closed) throw new Error(`${what}: the socket closed with ${this.closed.code} ${this.closed.reason}`);
      return undefined;
    }, what, ms);
  }

  /** The next text frame that fits, parsed. */
  async nextText(fits = () => true, what = "a text frame", ms = PATIENCE) {
    return until(() => {
      while (this.#readTexts < this.texts.length) {
        const text = JSON.parse(this.texts[this.#readTexts++]);
        if (fits(text)) return text;
      }
      if (this.closed) throw new Error(`${what}: the socket closed with ${this.closed.code} ${this.closed.reason}`);
      return undefined;
    }, what, ms);
  }

  /** Forgets the text frames so far, of which a long test has many. */
  forgetTexts() {
    this.texts.length = 0;
    this.#readTexts = 0;
  }

  /** Waits until the relay has dealt with everything sent before, by a question it answers in order. */
  async settled() {
    const id = `settled-${(FrameClient.#asked += 1)}`;
    this.say({ type: "flush", id });
    return this.nextText((text) => text.id === id, "the answer to a flush");
  }

  /** How the relay closes the socket. */
  async closing() {
    return within(this.ended, "the socket closes");
  }

  /** Closes as a browser does, and waits for the end. */
  async close(...code) {
    if (code.length === 0) code.push(1000);
    this.socket.close(...code.filter((given) => given !== undefined));
    return this.closing();
  }

  /** Ends the TCP connection with RST, as a crashed machine's router does. */
  reset() {
    reset(this.socket._socket);
  }

  /** Drops the connection, if there still is one. */
  stop() {
    this.socket.terminate();
  }

  static #asked = 0;
}
