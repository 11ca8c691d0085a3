// The search for lines to add: a field that offers matching lines (the combobox pattern of ARIA).
import { element } from "./dom";

const PAUSE = 150; // milliseconds after the last key

interface Offer {
  line: string;
  title: string;
}

/** ``chosen`` gets the line in the form for the address. */
export function offerLines(form: HTMLFormElement, chosen: (line: string) => void): void {
  const input = form.querySelector<HTMLInputElement>("input[role=combobox]")!;
  const list = form.querySelector<HTMLElement>("[role=listbox]")!;
  let offers: Offer[] = [];
  let marked = -1;
  let waiting: ReturnType<typeof setTimeout> | undefined;
  let asked = 0;
  const show = () => {
    list.replaceChildren(...offers.map((offer, i) => option(offer, i === marked, () => chosen(offer.line))));
    list.hidden = offers.length === 0;
    input.setAttribute("aria-expanded", String(!list.hidden));
    input.setAttribute("aria-activedescendant", marked >= 0 ? `offer-${marked}` : "");
    list.children[marked]?.scrollIntoView({ block: "nearest" });
  };
  const close = () => {
    [offers, marked] = [[], -1];
    asked++;
    show();
  };
  let answered = ""; // the text of the present offers
  const ask = async () => {
    const number = ++asked;
    const text = input.value;
    const response = await fetch(`${input.dataset["offers"]}&${new URLSearchParams({ q: text })}`);
    if (!response.ok || number !== asked) return;
    offers = ((await response.json()) as { lines: Offer[] }).lines;
    [answered, marked] = [text, text.trim() ? 0 : -1];
    show();
  };
  const choose = async () => {
    clearTimeout(waiting); // a later request would take the answer of the one below
    if (answered !== input.value) await ask(); // after fast typing, the last text counts
    const line = offers[marked]?.line ?? input.value.trim();
    if (line) chosen(line);
  };
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => void ask(), PAUSE);
  });
  input.addEventListener("focus", () => void ask());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && offers.length > 0) {
      event.preventDefault();
      marked = (marked + step + offers.length) % offers.length;
      show();
    } else if (event.key === "Escape") close();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void choose();
  });
}

function option(offer: Offer, marked: boolean, chosen: () => void): HTMLElement {
  const made = element("li", "", offer.title);
  made.setAttribute("role", "option");
  made.setAttribute("aria-selected", String(marked));
  // This comes before the field loses the focus, which closes the list.
  made.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    chosen();
  });
  return made;
}
