// Hears of what changes: by a stream of the server, or by asking again and again where there is none.

const EVERY_MS = 3000;
const AGAIN_MS = 15000; // until a stream that the server has refused is tried again

export interface Listener {
  /** Where the stream is; "" without one. */
  address: string;
  /** The id of the last event, for a stream that begins anew. */
  at: () => string;
  /** What to do with an event of each kind. */
  heard: Record<string, (data: unknown) => void>;
  /** What to do instead every few seconds while there is no stream. */
  ask: () => Promise<void>;
}

/** Listens while the page is visible; returns what ends it. One stream per page: browsers allow six of a server. */
export function listen(to: Listener): () => void {
  let source: EventSource | undefined;
  let asking: ReturnType<typeof setInterval> | undefined;
  let again: ReturnType<typeof setTimeout> | undefined;
  let ended = false;

  const ask = () => void to.ask().catch(() => undefined); // the next interval tries again
  const beginAsking = () => {
    asking ??= setInterval(ask, EVERY_MS);
  };
  const stopAsking = () => {
    clearInterval(asking);
    asking = undefined;
  };
  const close = () => {
    source?.close();
    source = undefined;
    clearTimeout(again);
    stopAsking();
  };
  const open = () => {
    if (ended || document.hidden || source) return;
    if (!to.address) {
      beginAsking();
      return;
    }
    const stream = new EventSource(`${to.address}?at=${encodeURIComponent(to.at())}`);
    source = stream;
    stream.onopen = stopAsking;
    stream.onerror = () => {
      beginAsking();
      if (stream.readyState !== EventSource.CLOSED || source !== stream) return; // else it connects again by itself
      source = undefined;
      again = setTimeout(open, AGAIN_MS);
    };
    for (const [kind, call] of Object.entries(to.heard)) {
      stream.addEventListener(kind, (event) => call(JSON.parse((event as MessageEvent<string>).data)));
    }
  };
  const turned = () => {
    if (document.hidden) {
      close();
    } else {
      ask(); // what has changed meanwhile
      open();
    }
  };
  document.addEventListener("visibilitychange", turned);
  open();
  return () => {
    ended = true;
    document.removeEventListener("visibilitychange", turned);
    close();
  };
}
