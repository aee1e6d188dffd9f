/** The page of one server: opens the tool that the address names, shows tools as JSON, restores releases, approves changes, and loads the tester when asked. */

import { approveChanges } from "./meta/approve.ts";
import { openTarget } from "./meta/open-target.ts";
import { restoreReleases } from "./meta/restore.ts";
import { showToolsAsJson } from "./meta/tool-json.ts";

openTarget();
restoreReleases();
showToolsAsJson();
approveChanges();
