import { admits, withKey } from "../filter";
import { submitOnChange } from "../forms";
import { getPiece, whenCalm } from "../fragment";
import { addRowsOnDemand, takeRows } from "../parts/morerows";

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
if (table) addRowsOnDemand(table);
