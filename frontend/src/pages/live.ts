// Brings a part of the page up to date every few seconds while somebody looks at it.

const EVERY_MS = 3000;

/** Puts new content in place of the old, and keeps what the reader has opened and scrolled. */
function replace(root: HTMLElement, html: string): void {
  const opened = new Map([...root.querySelectorAll("details[id]")].map((d) => [d.id, (d as HTMLDetailsElement).open]));
  const log = root.querySelector<HTMLElement>("[data-follow]");
  const following = !log || log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  const top = log?.scrollTop ?? 0;
  const focused = document.activeElement?.closest<HTMLElement>("[id]");
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  root.replaceChildren(fresh.content);
  for (const details of root.querySelectorAll<HTMLDetailsElement>("details[id]")) {
    details.open = opened.get(details.id) ?? details.open;
  }
  const next = root.querySelector<HTMLElement>("[data-follow]");
  if (next) next.scrollTop = following ? next.scrollHeight : top;
  if (focused && !focused.isConnected) {
    const again = document.getElementById(focused.id);
    (again?.querySelector("summary") ?? again)?.focus({ preventScroll: true });
  }
}

function going(root: HTMLElement): boolean {
  return root.querySelector("[data-going]")?.getAttribute("data-going") === "yes";
}

async function refresh(root: HTMLElement): Promise<void> {
  const response = await fetch(root.dataset["live"]!);
  if (response.ok) replace(root, await response.text());
}

function watch(root: HTMLElement): void {
  const log = root.querySelector<HTMLElement>("[data-follow]");
  if (log) log.scrollTop = log.scrollHeight;
  const timer = setInterval(() => {
    if (!going(root)) clearInterval(timer);
    else if (!document.hidden) refresh(root).catch(() => undefined); // the next round tries again
  }, EVERY_MS);
}

document.querySelectorAll<HTMLElement>("[data-live]").forEach(watch);
