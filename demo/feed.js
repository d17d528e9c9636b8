// The change feed by EventSource. A browser's EventSource cannot send a header, so the token is in
// the URL; it lives for minutes, and a reader that is refused comes back with a fresh one.

/** How long to wait before a new try, in ms. */
const AGAIN = 2000;

/** Follows the changes after `since`. `onChange` gets each once, in order; `onReset` when some are lost. */
export function follow({ streamUrl, fetchToken, since, onChange, onReset }) {
  let cursor = since;
  const open = async () => {
    const token = await fetchToken();
    const source = new EventSource(`${streamUrl}?since=${cursor}&token=${token}`);
    const moved = (event) => {
      if (event.lastEventId) cursor = Number(event.lastEventId);
    };
    source.addEventListener("change", (event) => {
      moved(event);
      onChange(JSON.parse(event.data));
    });
    source.addEventListener("head", moved);
    source.addEventListener("reset", (event) => {
      moved(event);
      onReset();
    });
    source.addEventListener("deleted", () => source.close());
    source.addEventListener("error", () => {
      // While it is CONNECTING it tries again by itself. CLOSED: refused, the token is too old.
      if (source.readyState === EventSource.CLOSED) again();
    });
  };
  const again = () => setTimeout(() => open().catch(again), AGAIN);
  open().catch(again);
}
