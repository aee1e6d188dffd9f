/**
 * The script of every page: copies texts, filters lists, shows times in the reader's time zone. Each file directly in
 * this folder is a script of its own under /assets; folders beside it hold its imports. Pages read well without any of
 * it.
 */

import { copyOnClick } from "./shared/copy.ts";
import { filterLists } from "./page/filter.ts";
import { showLocalTimes } from "./shared/times.ts";

copyOnClick();
filterLists();
showLocalTimes();
