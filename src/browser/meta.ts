/**
 * The script of a server's page: opens the tool named in the address, shows tools as JSON, restores releases, approves
 * changes, and loads the tester on request.
 */

import { approveChanges } from "./meta/approve.ts";
import { openTarget } from "./meta/open-target.ts";
import { restoreReleases } from "./meta/restore.ts";
import { showToolsAsJson } from "./meta/tool-json.ts";

openTarget();
restoreReleases();
showToolsAsJson();
approveChanges();
