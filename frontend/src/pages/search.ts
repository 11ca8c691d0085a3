// The search box in the head of each page: suggestions during typing (a combobox with a list), and "/" to focus it.
import { placeAfter, spoken, takesText, type Suggestion } from "../suggest";

const QUIET_MS = 120; // without a key before the request

class SearchBox {
  private readonly list = document.createElement("ul");
  private readonly said = document.createElement("p");
  private place = -1;
  private timer = 0;
  private asked: AbortController | null = null;

  constructor(
    private readonly form: HTMLFormElement,
    private readonly input: HTMLInputElement,
  ) {
    this.list.id = "suggestions";
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", "Suggestions");
    this.list.hidden = true;
    this.said.className = "hidden";
    this.said.setAttribute("role", "status");
    form.append(this.list, this.said);
    for (const [name, value] of [
      ["role", "combobox"],
      ["aria-autocomplete", "list"],
      ["aria-controls", this.list.id],
      ["aria-expanded", "false"],
    ] as const) {
      input.setAttribute(name, value);
    }
    input.addEventListener("input", () => this.askSoon());
    input.addEventListener("keydown", (event) => this.press(event));
    input.addEventListener("focus", () => this.options.length && this.show(true));
    form.addEventListener("focusout", (event) => {
      if (!form.contains(event.relatedTarget as Node | null)) this.show(false);
    });
  }

  private get options(): HTMLAnchorElement[] {
    return [...this.list.querySelectorAll<HTMLAnchorElement>("a")];
  }

  private askSoon(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.ask().catch(() => this.show(false)), QUIET_MS);
  }

  private async ask(): Promise<void> {
    this.asked?.abort();
    const text = this.input.value.trim();
    if (!text) return this.fill([]);
    const asked = (this.asked = new AbortController());
    try {
      const address = `${this.form.dataset["search"]}?q=${encodeURIComponent(text)}`;
      const response = await fetch(address, { signal: asked.signal });
      if (!response.ok) return this.show(false);
      const found = (await response.json()) as { results: Suggestion[] };
      this.fill(found.results);
      this.said.textContent = spoken(found.results.length);
    } catch (error) {
      if (!asked.signal.aborted) throw error; // otherwise another request has replaced it
    }
  }

  private fill(found: Suggestion[]): void {
    this.list.replaceChildren(...found.map(optionOf));
    this.choose(-1);
    this.show(found.length > 0 && this.form.contains(document.activeElement)); // the reader may have gone on
  }

  private show(open: boolean): void {
    this.list.hidden = !open;
    this.input.setAttribute("aria-expanded", String(open));
    if (!open) this.choose(-1);
  }

  private choose(place: number): void {
    this.place = place;
    this.input.removeAttribute("aria-activedescendant");
    for (const [i, option] of this.options.entries()) {
      option.setAttribute("aria-selected", String(i === place));
      if (i !== place) continue;
      this.input.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    }
  }

  private press(event: KeyboardEvent): void {
    const options = this.options;
    if (event.key === "Escape") {
      if (this.list.hidden) this.input.blur();
      this.show(false);
      event.preventDefault(); // otherwise the browser would empty the box
    } else if (event.key.startsWith("Arrow") && options.length && placeAfter(event.key, 0, 9) !== 0) {
      event.preventDefault();
      if (this.list.hidden) this.show(true);
      this.choose(placeAfter(event.key, this.place, options.length));
    } else if (event.key === "Enter" && this.place >= 0) {
      event.preventDefault();
      location.assign(options[this.place]!.href);
    }
  }
}

function optionOf(found: Suggestion, place: number): HTMLLIElement {
  const item = document.createElement("li");
  item.setAttribute("role", "none");
  const link = document.createElement("a");
  link.id = `suggestion-${place}`;
  link.setAttribute("role", "option");
  link.href = found.url;
  link.tabIndex = -1;
  for (const name of ["kind", "title", "detail"] as const) {
    const part = document.createElement("span");
    part.className = name;
    part.textContent = found[name];
    link.append(part);
  }
  item.append(link);
  return item;
}

const form = document.querySelector<HTMLFormElement>("form[data-search]");
const input = form?.querySelector<HTMLInputElement>("input[name=q]");
if (form && input) {
  new SearchBox(form, input);
  document.addEventListener("keydown", (event) => {
    const at = event.target as HTMLInputElement;
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (takesText(at.tagName, at.type ?? "", at.isContentEditable)) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
}
