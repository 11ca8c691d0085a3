// Pieces of pages that the server renders. The browser parses them as documents of their own, in which no script runs:
// no text becomes markup here, so that Trusted Types can forbid it everywhere.

export const PATIENCE_MS = 8000; // with a server to which the network may be cut

/** What the server answers to a GET. */
export function getPiece(address: string): Promise<ChildNode[]> {
  return load("GET", address, null).then((body) => [...body.childNodes]);
}

/** What the server answers to a form as it is typed. */
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

/** Calls once nothing has happened for a while, and tells an earlier call to stop. */
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
