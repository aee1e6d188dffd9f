/**
 * What every page does where scripts run: copies texts, filters lists, shows times as the reader's clock does.
 * Each file directly in this folder is a script of its own under /assets; folders beside it hold what they import.
 * Pages read well without any of it.
 */

import { copyOnClick } from "./page/copy.ts";
import { filterLists } from "./page/filter.ts";
import { showLocalTimes } from "./page/times.ts";

copyOnClick();
filterLists();
showLocalTimes();
