// One measured connection: a plain WebSocket with deadlines, without a Yjs document, so
// that a hundred of them cost the driver little.

import WebSocket from "ws";

/** Opens a socket; `onFrame(bytes)` hears every binary frame. Rejects after 20 s. */
export function openSocket(url, onFrame) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, {
      perMessageDeflate: false,
      handshakeTimeout: 20_000,
      maxPayload: 64 * 1024 * 1024,
    });
    socket.on("message", (data, isBinary) => isBinary && onFrame(data));
    socket.on("error", reject);
    socket.on("unexpected-response", (_, response) => {
      reject(new Error(`upgrade refused with ${response.statusCode}`));
    });
    socket.on("close", (code, reason) => {
      if (!socket.ended) socket.failure = `closed with ${code} ${reason}`;
      socket.onEnd?.(socket.failure);
    });
    socket.on("open", () => resolve(socket));
  });
}

/** Closes a socket that the driver is done with; never waits for the other side. */
export function closeSocket(socket) {
  socket.ended = true;
  socket.close(1000);
  setTimeout(() => socket.terminate(), 1000).unref();
}

/** Resolves after `milliseconds`. */
export function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Resolves as soon as `condition()` holds, with `false` when it never did. */
export async function until(condition, milliseconds) {
  const end = performance.now() + milliseconds;
  while (!condition()) {
    if (performance.now() > end) return false;
    await sleep(5);
  }
  return true;
}
