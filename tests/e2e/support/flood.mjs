// A writer that sends as fast as its relay takes it: updates of one Yjs client, made by hand beforehand and many to
// a write, so that what is slow is the relay and not the test. It comes back when it is closed, and brings all it has.
import WebSocket from "ws";
import { updateFrame, varBytes, varUint } from "./frames.mjs";
import { PATIENCE, sleep, within } from "./waiting.mjs";

/** Letters of one update: a word. */
export const WORD = 8;
/** Frames of one write to the socket. */
const BATCH = 64;
/** Before it comes again, in ms. */
const BACKOFF = 250;

/** An update with the letters `from` to `to` of a client that only ever appends one letter to its own in text "t". */
function lettersUpdate(client, from, to, letter) {
  // The first hangs on the text's name, each other one on the letter before it.
  const place = from === 0 ? Buffer.from([4, 1, 1, 0x74]) : Buffer.concat([Buffer.from([0x84]), varUint(client), varUint(from - 1)]);
  const head = [1, 1, client, from].map(varUint);
  return Buffer.concat([...head, place, varBytes(Buffer.alloc(to - from, letter)), Buffer.from([0])]);
}

/** A short binary frame as a client sends it; it is masked with 0, so the bytes stay as they are. */
function onTheWire(payload) {
  return Buffer.concat([Buffer.from([0x82, 0x80 | payload.length, 0, 0, 0, 0]), payload]);
}

/** One such writer, with a letter of its own. */
export class Flooder {
  words = 0;
  closes = [];
  /** Tries to connect that were refused. */
  refusals = 0;
  #receipts = new Set();

  /** `most` is how many words it may write: all of them have to fit into one frame. */
  constructor(url, client, letter, most) {
    Object.assign(this, { url, client, letter });
    this.batches = Array.from({ length: Math.floor(most / BATCH) }, (_, batch) => this.#make(batch * BATCH));
  }

  /** Connects, and brings what it has written so far. */
  async open() {
    const socket = (this.socket = new WebSocket(this.url, { perMessageDeflate: false }));
    socket.on("error", () => {});
    socket.on("message", (data, isBinary) => isBinary || this.#receipts.add(JSON.parse(data).type));
    const opened = new Promise((settle, reject) => socket.once("open", settle).once("close", () => reject(new Error("refused"))));
    await within(opened, "a flooder connects");
    socket.on("close", (code) => this.closes.push(code));
    const letters = this.words * WORD;
    if (letters > 0) socket.send(updateFrame(lettersUpdate(this.client, 0, letters, this.letter)));
  }

  get isOpen() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  /** Writes until `isOver`, and never waits for anything but the relay's taking it, and while `isEnough`. */
  async flood(isOver, isEnough) {
    while (!isOver() && this.words < this.batches.length * BATCH) {
      if (!this.isOpen) await this.#again();
      else if (isEnough()) await sleep(5);
      else await this.#write();
    }
  }

  /** Waits until all that it wrote is saved, however often it has to come again for that. */
  async saved() {
    for (let tries = 0; ; tries += 1) {
      if (tries === PATIENCE / BACKOFF) throw new Error(`no receipt; closes ${this.closes.join(", ")}, ${this.refusals} refusals`);
      if (!this.isOpen) await this.#again();
      this.#receipts.clear();
      if (this.isOpen) this.socket.send('{"type":"flush","id":1}');
      const end = Date.now() + PATIENCE;
      while (this.isOpen && this.#receipts.size === 0 && Date.now() < end) await sleep(10);
      if (this.#receipts.has("receipt")) return;
      await sleep(BACKOFF);
    }
  }

  stop() {
    this.socket?.terminate();
  }

  async #again() {
    await sleep(BACKOFF);
    await this.open().catch(() => (this.refusals += 1));
  }

  #make(first) {
    const { client, letter } = this;
    const words = Array.from({ length: BATCH }, (_, n) => (first + n) * WORD);
    return Buffer.concat(words.map((from) => onTheWire(updateFrame(lettersUpdate(client, from, from + WORD, letter)))));
  }

  async #write() {
    const batch = this.batches[this.words / BATCH];
    this.words += BATCH;
    const raw = this.socket._socket;
    const isTaken = raw.write(batch);
    // The relay may be slow, or close it.
    await new Promise((settle) => (isTaken ? setImmediate(settle) : raw.once("drain", settle).once("close", settle)));
  }
}
