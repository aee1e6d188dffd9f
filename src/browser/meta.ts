/** The page of one server: opens the tool that the address names, restores releases, approves changes, and loads the tester when asked. */

import { approveChanges } from "./meta/approve.ts";
import { openTarget } from "./meta/open-target.ts";
import { restoreReleases } from "./meta/restore.ts";

openTarget();
restoreReleases();
approveChanges();
