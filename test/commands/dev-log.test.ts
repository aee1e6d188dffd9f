import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { lineForPeople } from "../../src/commands/dev-log.ts";
import { logOptions } from "../../src/lib/log.ts";

test("shows log lines to people without JSON, secrets and control characters", () => {
  let shown = "";
  const log = pino(logOptions("info", ["hunter2-hunter2"], lineForPeople), {
    write: (line: string) => void (shown += line),
  });
  log.warn({ server: "a\u001b[2J", count: 2 }, "hunter2-hunter2 is slow");
  log.error({ err: new Error("disk full") }, "a save failed");
  log.info("ready");
  assert.deepEqual(shown.replace(/^\d\d:\d\d:\d\d /gm, "").split("\n"), [
    "warning: [hidden] is slow (server: a\ufffd[2J, count: 2)",
    "error: a save failed (reason: disk full)",
    "info: ready",
    "",
  ]);
});
