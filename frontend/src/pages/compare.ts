import { submitOnChange } from "../forms";

submitOnChange(document);
