// The rows of a long table that a page does not have: the server sends those of the next page.
import { getPiece } from "../fragment";

/** Takes rows of the server into the table, and states below it how many of all they are. Returns their first link. */
export function takeRows(table: HTMLTableElement, pieces: ChildNode[]): HTMLAnchorElement | null {
  const loaded = pieces.find((piece) => piece instanceof HTMLTableElement)!;
  const first = loaded.querySelector("a");
  table.append(...loaded.tBodies);
  const fresh = pieces.find((piece) => piece instanceof HTMLParagraphElement)!;
  const line = document.querySelector<HTMLElement>(".morerows")!; // it stays, as what changes in it is read out
  line.hidden = fresh.hidden;
  line.querySelector("[role=status]")!.textContent = fresh.querySelector("[role=status]")!.textContent;
  line.querySelectorAll("a").forEach((link) => link.remove());
  line.append(...fresh.querySelectorAll("a"));
  return first;
}

/** Puts the rows of the next page behind those of the table, where its link is followed. */
async function addRows(table: HTMLTableElement, link: HTMLAnchorElement): Promise<void> {
  if (table.ariaBusy === "true") return;
  table.ariaBusy = "true";
  try {
    takeRows(table, await getPiece(link.dataset["more"]!))?.focus();
  } catch {
    location.assign(link.href);
  } finally {
    table.ariaBusy = null;
  }
}

/** Lets the link to the next page add its rows to this table. */
export function addRowsOnDemand(table: HTMLTableElement): void {
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest<HTMLAnchorElement>("a[data-more]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    void addRows(table, link);
  });
}
