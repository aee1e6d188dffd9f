/** The script of pages that edit and compare. It talks only to the JSON API. */

import { showComparison, type ComparisonSetup } from "./editor/comparison.ts";
import { openEditors, setupOf } from "./editor/open-editors.ts";

openEditors(document);

for (const place of document.querySelectorAll<HTMLElement>("[data-comparison]")) {
  showComparison(place, setupOf(place) as ComparisonSetup);
}
