// Pieces of pages that the server renders. The browser parses them as separate documents, in which no script runs: here
// no text becomes markup, so Trusted Types can forbid that everywhere.

export const PATIENCE_MS = 8000; // with a server that may be unreachable

/** The server's answer to a GET. */
export function getPiece(address: string): Promise<ChildNode[]> {
  return load("GET", address, null).then((body) => [...body.childNodes]);
}

/** The server's answer to a form during typing. */
export function postForm(address: string, form: HTMLFormElement, signal: AbortSignal): Promise<Element[]> {
  return load("POST", address, new FormData(form), signal).then((body) => [...body.children]);
}

function load(method: string, address: string, content: FormData | null, signal?: AbortSignal): Promise<HTMLElement> {
  return new Promise((resolve, reject) => {
    const asked = new URL(address, location.href);
    asked.hash = "";
    const request = new XMLHttpRequest();
    request.open(method, asked);
    request.responseType = "document";
    if (method === "GET") request.timeout = PATIENCE_MS;
    request.onload = () => {
      const body = request.responseXML?.body;
      if (request.responseURL !== asked.href) reject(new Error("you are logged out"));
      else if (request.status === 200 && body) resolve(body);
      else reject(new Error(`the server answered ${request.status}`));
    };
    request.onerror = request.ontimeout = () => reject(new Error("the server does not answer"));
    signal?.addEventListener("abort", () => request.abort());
    request.send(content);
  });
}

/** Calls after a quiet pause, and aborts an earlier call. */
export function whenCalm(pause: number, call: (signal: AbortSignal) => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let running = new AbortController();
  return () => {
    clearTimeout(timer);
    running.abort();
    running = new AbortController();
    const { signal } = running;
    timer = setTimeout(() => call(signal), pause);
  };
}
