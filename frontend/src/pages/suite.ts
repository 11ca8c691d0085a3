// The editor of a suite: line numbers, mistakes at their lines, and the changes of saving.

import { indent, indentation, lineCount, rangeOfLine, unindent, type Selected } from "../editing";
import { postForm, whenCalm } from "../fragment";

const PAUSE_MS = 400;

const form = document.querySelector<HTMLFormElement>("form#suite")!;
const paper = form.querySelector("textarea")!;
const gutter = form.querySelector<HTMLElement>(".gutter")!;
const marks = form.querySelector<HTMLElement>(".marks")!;
const result = form.querySelector<HTMLElement>("#check")!;
let leaving = false; // Escape was pressed: the next Tab leaves the editor
let changed = false;

function element(name: string, className: string, text: string): HTMLElement {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

/** The mistakes that the server lists, by line. */
function mistakes(): Map<number, string> {
  const found = new Map<number, string>();
  for (const item of result.querySelectorAll<HTMLElement>("li[data-line]")) {
    const line = Number(item.dataset["line"]);
    if (!found.has(line)) found.set(line, item.querySelector("span")?.textContent ?? "");
  }
  return found;
}

function drawLines(): void {
  const wrong = mistakes();
  const count = lineCount(paper.value);
  paper.rows = count;
  const numbers: HTMLElement[] = [];
  const rows: HTMLElement[] = [];
  for (let line = 1; line <= count; line++) {
    const words = wrong.get(line);
    numbers.push(element("span", words === undefined ? "" : "wrong", words === undefined ? `${line}` : `✖ ${line}`));
    const row = element("div", words === undefined ? "" : "wrong", "");
    if (words !== undefined) row.append(element("b", "", words));
    rows.push(row);
  }
  gutter.replaceChildren(...numbers);
  marks.replaceChildren(...rows);
}

function goTo(line: number): void {
  const [begin, end] = rangeOfLine(paper.value, line);
  paper.focus({ preventScroll: true });
  paper.setSelectionRange(begin, end);
  gutter.children[line - 1]?.scrollIntoView({ block: "center" });
}

function apply(next: Selected): void {
  paper.value = next.text;
  paper.setSelectionRange(next.start, next.end);
  paper.dispatchEvent(new Event("input"));
}

const check = whenCalm(PAUSE_MS, (signal) => {
  postForm(form.dataset["check"]!, form, signal)
    .then((pieces) => {
      if (signal.aborted) return;
      result.replaceChildren(...pieces);
      drawLines();
    })
    .catch((error: Error) => result.replaceChildren(element("p", "error", `Not checked: ${error.message}.`)));
});

paper.addEventListener("input", () => {
  changed = true;
  drawLines();
  check();
});

paper.addEventListener("keydown", (event) => {
  const at = { text: paper.value, start: paper.selectionStart, end: paper.selectionEnd };
  if (event.key === "Tab" && !leaving) {
    event.preventDefault();
    apply(event.shiftKey ? unindent(at) : indent(at));
  } else if (event.key === "Enter" && at.start === at.end) {
    const blanks = indentation(at.text, at.start);
    if (!blanks) return;
    event.preventDefault();
    const place = at.start + 1 + blanks.length;
    apply({ text: `${at.text.slice(0, at.start)}\n${blanks}${at.text.slice(at.start)}`, start: place, end: place });
  }
  leaving = event.key === "Escape" || (leaving && event.key === "Shift");
});

result.addEventListener("click", (event) => {
  const line = (event.target as Element).closest<HTMLElement>("li[data-line]")?.dataset["line"];
  if (!line || !(event.target as Element).closest("a")) return;
  event.preventDefault();
  goTo(Number(line));
});

form.addEventListener("submit", () => (changed = false));
addEventListener("beforeunload", (event) => {
  if (changed) event.preventDefault();
});
document.documentElement.classList.add("js");
drawLines();
