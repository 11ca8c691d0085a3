import { submitOnChange } from "../forms";
import { addRowsOnDemand } from "../parts/morerows";

submitOnChange(document);
const table = document.querySelector<HTMLTableElement>("#results table");
if (table) addRowsOnDemand(table);
