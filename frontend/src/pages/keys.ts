// The keys of a page: they walk and open rows, decide on alerts, and ? lists them.
import { DECISIONS, keysOf, stepped, WHY } from "../keys";

const ROWS = "main .changes > li, main .commits > li, main table:not(.grid, .forest) > tbody > tr";
const FIELD = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";

let active: HTMLElement | null = null;
let address = ""; // of the active row, to find it again after a live page has replaced it

/** The present rows that can be opened: a live page replaces them. */
function rows(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>(ROWS)].filter((row) => link(row) && row.offsetParent);
}

function link(row: HTMLElement): HTMLAnchorElement | null {
  return row.querySelector<HTMLAnchorElement>("a.open, th a:not(.term), .finding a:not(.term), a:not(.term)");
}

function checkbox(row: HTMLElement | null): HTMLInputElement | null {
  return row?.querySelector<HTMLInputElement>("input[type=checkbox]") ?? null;
}

/** The present element of the active row. */
function activeRow(): HTMLElement | null {
  if (active && !active.isConnected) active = rows().find((row) => link(row)!.href === address) ?? null;
  return active;
}

function activate(row: HTMLElement | undefined): void {
  if (!row) return;
  active?.classList.remove("active");
  active = row;
  address = link(row)!.href;
  row.classList.add("active");
  link(row)!.focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

function step(by: number): void {
  const all = rows();
  const focused = document.activeElement?.closest<HTMLElement>(ROWS);
  activate(all[stepped(all.indexOf(focused ?? activeRow() ?? document.body), by, all.length)]);
}

/** The form that decides: of the selected rows, or of the alert of this page. */
function decisionForm(): HTMLFormElement | null {
  return document.querySelector<HTMLFormElement>("form[data-decide]");
}

/** Acknowledging is saved at once. Of another decision the note is asked for; the person sends the form. */
function decide(action: string): void {
  const form = decisionForm();
  const choice = form?.querySelector<HTMLSelectElement>("select[name=action], select[name=status]");
  if (!form || !choice) return;
  const boxes = [...document.querySelectorAll<HTMLInputElement>("input[name=alert]")];
  const current = checkbox(activeRow());
  if (current && !boxes.some((box) => box.checked)) toggle(current);
  const me = form.querySelector<HTMLSelectElement>("select[name=assignee]");
  if (action === "take" && me) me.value = form.dataset["me"] ?? "";
  else choice.value = action;
  if (action === "take") return form.requestSubmit();
  const note = form.querySelector<HTMLInputElement | HTMLTextAreaElement>("[name=note]")!;
  note.placeholder = WHY[action] ?? "";
  note.labels?.[0]?.setAttribute("data-hint", "Ctrl+Enter saves");
  note.scrollIntoView({ block: "nearest" });
  note.focus();
}

function toggle(box: HTMLInputElement): void {
  box.checked = !box.checked;
  box.dispatchEvent(new Event("change", { bubbles: true }));
}

function listKeys(): void {
  const known = document.querySelector<HTMLDialogElement>("dialog#keys");
  const dialog = known ?? document.body.appendChild(document.createElement("dialog"));
  dialog.id = "keys";
  dialog.setAttribute("aria-labelledby", "keystitle");
  const title = document.createElement("h2");
  title.id = "keystitle";
  title.textContent = "Keys of this page";
  const list = document.createElement("dl");
  const page = {
    rows: rows().length > 0,
    select: document.querySelector("input[name=alert]") !== null,
    decide: decisionForm() !== null,
    search: document.querySelector(".top input[type=search]") !== null,
  };
  for (const { keys, does } of keysOf(page)) {
    const term = document.createElement("dt");
    for (const key of keys) term.append(Object.assign(document.createElement("kbd"), { textContent: key }), " ");
    list.append(term, Object.assign(document.createElement("dd"), { textContent: does }));
  }
  const close = Object.assign(document.createElement("button"), { textContent: "Close", autofocus: true });
  close.addEventListener("click", () => dialog.close());
  dialog.replaceChildren(title, list, close);
  if (!dialog.open) dialog.showModal();
}

const ACTS: Record<string, () => void> = {
  j: () => step(1),
  k: () => step(-1),
  o: () => {
    const row = activeRow();
    if (row) link(row)?.click();
  },
  x: () => {
    const box = checkbox(activeRow());
    if (box) toggle(box);
  },
  "?": listKeys,
  ...Object.fromEntries(Object.entries(DECISIONS).map(([key, action]) => [key, () => decide(action)])),
};

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented) return; // another part of the page has used it
  const target = event.target as Element;
  if (target.matches(FIELD)) {
    if (event.key === "Escape") (target as HTMLElement).blur();
    if (event.key === "Enter" && event.ctrlKey) target.closest<HTMLFormElement>("form[data-decide]")?.requestSubmit();
    return;
  }
  const act = ACTS[event.key];
  if (!act || event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  act();
});

/** Shows the number of selected alerts, and a box that selects all of them. */
function countSelected(form: HTMLFormElement): void {
  const boxes = [...document.querySelectorAll<HTMLInputElement>("input[name=alert]")];
  const said = form.querySelector<HTMLElement>("[data-selected]");
  const all = form.querySelector<HTMLInputElement>("input[data-all]");
  if (!said || !all) return;
  const count = (): void => {
    const number = boxes.filter((box) => box.checked).length;
    said.textContent = number === 0 ? "none selected" : `${number} selected`;
    all.checked = number === boxes.length;
    all.indeterminate = number > 0 && number < boxes.length;
  };
  all.closest<HTMLElement>("[hidden]")?.removeAttribute("hidden");
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    count();
  });
  for (const box of boxes) box.addEventListener("change", count);
  count();
}

const form = decisionForm();
if (form) countSelected(form);
