// A double of RTCPeerConnection, which Node does not have: descriptions name connections, and two that know
// each other's are connected, unless the network says no. Pieces arrive in order, later.
import type { DataChannelLike, PeerConnectionLike } from "../src/browser.ts";

export class FakeNetwork {
  readonly connections: FakeConnection[] = [];
  /** No candidates lead anywhere. */
  isBlocked = false;
  /** Bytes and texts that got through. */
  messages = 0;

  readonly connect = (): PeerConnectionLike => {
    const connection = new FakeConnection(this, this.connections.length);
    this.connections.push(connection);
    return connection;
  };

  get open(): number {
    return this.connections.filter(({ connectionState }) => connectionState === "connected").length;
  }

  /** Every connection is dead, and both sides notice. */
  cut(): void {
    for (const connection of this.connections) connection.become("failed");
  }
}

class FakeChannel implements DataChannelLike {
  binaryType = "blob";
  bufferedAmount = 0;
  bufferedAmountLowThreshold = 0;
  readyState = "connecting";
  onopen: DataChannelLike["onopen"] = null;
  onmessage: DataChannelLike["onmessage"] = null;
  onclose: DataChannelLike["onclose"] = null;
  onbufferedamountlow: DataChannelLike["onbufferedamountlow"] = null;
  readonly #other: () => FakeChannel | undefined;
  readonly #sent: () => void;

  constructor(other: () => FakeChannel | undefined, sent: () => void) {
    this.#other = other;
    this.#sent = sent;
  }

  send(data: string | Uint8Array<ArrayBuffer>): void {
    if (this.readyState !== "open") throw new Error("InvalidStateError");
    const copy = typeof data === "string" ? data : data.slice().buffer;
    this.bufferedAmount += data.length;
    setTimeout(() => {
      this.bufferedAmount -= data.length;
      this.#sent();
      this.#other()?.onmessage?.({ data: copy });
      if (this.bufferedAmount <= this.bufferedAmountLowThreshold) this.onbufferedamountlow?.();
    }, 0);
  }
}

export class FakeConnection implements PeerConnectionLike {
  connectionState = "new";
  iceGatheringState = "new";
  localDescription: { sdp: string } | null = null;
  onconnectionstatechange: PeerConnectionLike["onconnectionstatechange"] = null;
  onicegatheringstatechange: PeerConnectionLike["onicegatheringstatechange"] = null;
  channel: FakeChannel | null = null;
  readonly #network: FakeNetwork;
  readonly #index: number;
  #remote: FakeConnection | null = null;

  constructor(network: FakeNetwork, index: number) {
    this.#network = network;
    this.#index = index;
  }

  createDataChannel(): DataChannelLike {
    this.channel = new FakeChannel(() => this.#remote?.channel ?? undefined, () => (this.#network.messages += 1));
    return this.channel;
  }

  async setLocalDescription(): Promise<void> {
    this.localDescription = { sdp: String(this.#index) };
    this.iceGatheringState = "complete";
    this.onicegatheringstatechange?.();
    this.#meet();
  }

  async setRemoteDescription({ sdp }: { sdp: string }): Promise<void> {
    if (this.#remote !== null || this.connectionState === "closed") throw new Error("InvalidStateError");
    this.#remote = this.#network.connections[Number(sdp)] ?? null;
    this.#meet();
  }

  close(): void {
    if (this.connectionState === "closed") return;
    this.connectionState = "closed";
    if (this.channel !== null) this.channel.readyState = "closed";
    const other = this.#remote;
    setTimeout(() => other?.channel?.onclose?.(), 0);
  }

  become(state: string): void {
    if (this.connectionState === "closed") return;
    this.connectionState = state;
    if (this.channel !== null && state === "connected") this.channel.readyState = "open";
    if (state === "connected") this.channel?.onopen?.();
    this.onconnectionstatechange?.();
  }

  #meet(): void {
    const other = this.#remote;
    if (other === null || other.#remote !== this || this.localDescription === null || other.localDescription === null || this.#network.isBlocked) return;
    setTimeout(() => {
      for (const side of [this, other]) side.become("connected");
    }, 0);
  }
}
