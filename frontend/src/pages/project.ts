import { admits, withKey } from "../filter";
import { submitOnChange } from "../forms";

/** Hides the rows that do not match the text, as the server does after the form is sent; the address keeps the text. */
function filterRows(input: HTMLInputElement, table: HTMLTableElement): void {
  const text = input.value.trim();
  let shown = 0;
  for (const body of table.tBodies) {
    let any = false;
    for (const row of body.querySelectorAll<HTMLTableRowElement>("tr[data-name]")) {
      row.hidden = !admits(row.dataset["name"]!, text);
      any ||= !row.hidden;
      shown += Number(!row.hidden);
    }
    body.hidden = !any;
  }
  document.querySelector<HTMLElement>(".nomatch")!.hidden = shown > 0;
  history.replaceState(null, "", location.pathname + withKey(location.search, "q", text) + location.hash);
}

submitOnChange(document);
const input = document.querySelector<HTMLInputElement>("input[data-filter]");
const table = document.querySelector<HTMLTableElement>("table.grid");
if (input && table && !input.defaultValue) {
  input.addEventListener("input", () => filterRows(input, table));
  input.addEventListener("change", (event) => event.stopPropagation()); // the input event has done it already
}
