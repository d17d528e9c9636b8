// Ends a TCP connection with a reset, as a peer does that died.

/**
 * Node cannot reset a connection whose end it has sent already: the handle then stays for ever, and
 * the process spins at its exit. Such a connection is closed as it is.
 */
export function reset(socket) {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
