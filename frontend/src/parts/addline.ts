// The search for lines to add: a field that offers what its words match (the combobox pattern of ARIA).
import { element } from "./dom";

const PAUSE = 150; // milliseconds after the last key

interface Offer {
  line: string;
  title: string;
}

/** ``chosen`` gets the line as the address names it. */
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
  let answered = ""; // the text that the offers are for
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
    clearTimeout(waiting); // a later question would leave the one below without its answer
    if (answered !== input.value) await ask(); // who types fast means what was typed last
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
  // Before the field loses the focus, which closes the list.
  made.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    chosen();
  });
  return made;
}
