// Lines of a log from the server, put into a list by their numbers.
import { element } from "./dom";

export type Span = [text: string, styles: string];
export type Line = [number: number, spans: Span[], cut: boolean];

export interface LogPhase {
  attempt: number;
  phase: string;
  first: number;
  last: number;
  seconds: number;
}

export interface LogDocument {
  total: number;
  live?: boolean;
  phases: LogPhase[];
  lines: Line[];
}

/** The row of a line. `page` is the address of the log. */
export function row(page: string, [number, spans, cut]: Line): HTMLLIElement {
  const link = element("a", "", String(number));
  link.href = `${page}?from=${number}#L${number}`;
  link.tabIndex = -1;
  const text = element("span", "", ...spans.map(([part, styles]) => (styles ? element("b", styles, part) : part)));
  if (cut) text.append(element("i", "cut", "the rest is in the raw log"));
  const made = element("li", "", link, text);
  made.id = `L${number}`;
  return made;
}

/** The number of a row's line; 0 without a row. */
export function numberOf(made: Element | null | undefined): number {
  return Number(made?.id.slice(1) ?? 0);
}

/** Adds rows at the end of a list; an existing line is replaced, as it may have grown. */
export function append(list: HTMLElement, rows: HTMLLIElement[], most: number): void {
  const first = numberOf(rows[0]);
  while (list.lastElementChild && numberOf(list.lastElementChild) >= first) list.lastElementChild.remove();
  list.append(...rows);
  while (list.childElementCount > most) list.firstElementChild?.remove();
}
