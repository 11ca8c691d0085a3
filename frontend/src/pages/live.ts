// Updates a part of the page every few seconds while the page is visible.
import { getPiece } from "../fragment";

const EVERY_MS = 3000;

/** Replaces the content; what the reader opened, scrolled or focused stays so. */
function replace(root: HTMLElement, fresh: ChildNode[]): void {
  const opened = new Map([...root.querySelectorAll("details[id]")].map((d) => [d.id, (d as HTMLDetailsElement).open]));
  const log = root.querySelector<HTMLElement>("[data-follow]");
  const following = !log || log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  const top = log?.scrollTop ?? 0;
  const focused = document.activeElement?.closest<HTMLElement>("[id]");
  root.replaceChildren(...fresh);
  for (const details of root.querySelectorAll<HTMLDetailsElement>("details[id]")) {
    details.open = opened.get(details.id) ?? details.open;
  }
  const next = root.querySelector<HTMLElement>("[data-follow]");
  if (next) next.scrollTop = following ? next.scrollHeight : top;
  if (focused && !focused.isConnected) {
    const same = document.getElementById(focused.id);
    (same?.querySelector("summary") ?? same)?.focus({ preventScroll: true });
  }
}

function isActive(root: HTMLElement): boolean {
  return root.querySelector("[data-going]")?.getAttribute("data-going") === "yes";
}

async function refresh(root: HTMLElement): Promise<void> {
  replace(root, await getPiece(root.dataset["live"]!));
}

function watch(root: HTMLElement): void {
  const log = root.querySelector<HTMLElement>("[data-follow]");
  if (log) log.scrollTop = log.scrollHeight;
  const timer = setInterval(() => {
    if (!isActive(root)) clearInterval(timer);
    else if (!document.hidden) refresh(root).catch(() => undefined); // the next interval tries again
  }, EVERY_MS);
}

document.querySelectorAll<HTMLElement>("[data-live]").forEach(watch);
