// Submits a form as soon as a selection changes. Without scripts, its button does. The options of a selection with
// data-go are addresses, to which that query is added: with it in each, a page of 5,000 options would repeat it.

export function submitOnChange(root: Document): void {
  root.documentElement.classList.add("js");
  for (const form of root.querySelectorAll<HTMLFormElement>("form[data-submit-on-change]")) {
    form.addEventListener("change", (event) => {
      const select = event.target as HTMLSelectElement;
      const query = select.dataset["go"];
      if (query !== undefined) location.assign(select.value + query);
      else form.requestSubmit();
    });
  }
}
