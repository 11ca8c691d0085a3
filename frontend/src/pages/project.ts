import { admits, withKey } from "../filter";
import { submitOnChange } from "../forms";
import { getPiece, whenCalm } from "../fragment";

const CALM_MS = 150; // without a key, until the server looks for rows that are not loaded

/** Hides the rows that do not match the text, as the server does after the form is sent. */
function filterRows(table: HTMLTableElement, text: string): void {
  for (const body of table.tBodies) {
    let any = false;
    for (const row of body.querySelectorAll<HTMLTableRowElement>("tr[data-name]")) {
      row.hidden = !admits(row.dataset["name"]!, text);
      any ||= !row.hidden;
    }
    body.hidden = !any;
  }
}

/** Takes rows of the server into the table, and tells under it how many of all they are. Returns the first of them. */
function takeRows(table: HTMLTableElement, pieces: ChildNode[]): HTMLTableRowElement | null {
  const loaded = pieces.find((piece) => piece instanceof HTMLTableElement)!;
  const first = loaded.querySelector<HTMLTableRowElement>("tr[data-name]");
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
    takeRows(table, await getPiece(link.dataset["more"]!))
      ?.querySelector("a")
      ?.focus();
  } catch {
    location.assign(link.href);
  } finally {
    table.ariaBusy = null;
  }
}

/** The filter of a grid by names; the address keeps the text. Where rows are not loaded, the server looks for them. */
function filterAsTyped(input: HTMLInputElement, table: HTMLTableElement): void {
  let isPartial = false; // the rows are those that the server found
  const text = (): string => input.value.trim();
  const show = (): void => {
    document.querySelector<HTMLElement>(".nomatch")!.hidden = !!table.querySelector("tr[data-name]:not([hidden])");
    const query = withKey(withKey(location.search, "q", text()), "page", "");
    history.replaceState(null, "", location.pathname + query + location.hash);
  };
  const search = whenCalm(CALM_MS, (signal) => {
    const wanted = text();
    const address = withKey(withKey(withKey(location.search, "q", wanted), "page", ""), "part", "rows");
    const take = (pieces: ChildNode[]): void => {
      if (signal.aborted) return;
      for (const body of [...table.tBodies]) body.remove();
      takeRows(table, pieces);
      isPartial = wanted !== "";
      show();
    };
    getPiece(address).then(take, () => filterRows(table, wanted)); // without the server, among those that are loaded
  });
  input.addEventListener("input", () => {
    if (isPartial || document.querySelector(".morerows a")) search();
    else {
      filterRows(table, text());
      show();
    }
  });
  input.addEventListener("change", (event) => event.stopPropagation()); // the input event has done it already
}

submitOnChange(document);
const input = document.querySelector<HTMLInputElement>("input[data-filter]");
const table = document.querySelector<HTMLTableElement>("table.grid");
if (input && table && !input.defaultValue) filterAsTyped(input, table);
if (table)
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest<HTMLAnchorElement>("a[data-more]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    void addRows(table, link);
  });
