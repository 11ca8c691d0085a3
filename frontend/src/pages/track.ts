// Queries the repository as soon as its address is typed.

import { postForm, whenCalm } from "../fragment";

const form = document.querySelector<HTMLFormElement>("form[data-track]")!;
const address = form.querySelector<HTMLInputElement>("input[name=url]")!;
const answer = form.querySelector<HTMLElement>("#address")!;

function say(words: string): void {
  const line = document.createElement("p");
  line.className = "small soft";
  line.textContent = words;
  answer.replaceChildren(line);
}

const ask = whenCalm(600, (signal) => {
  if (!address.value.trim()) return answer.replaceChildren();
  say("Asking the repository …");
  postForm(form.dataset["track"]!, form, signal)
    .then((pieces) => {
      if (!signal.aborted) answer.replaceChildren(...pieces);
    })
    .catch((error: Error) => say(`Not checked: ${error.message}.`));
});

address.addEventListener("input", ask);
if (address.value) ask();
