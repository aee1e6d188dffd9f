import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { givingWayBy } from "../support/processes.ts";

/** A service with another niceness, and the result for a process that it starts. */
const SERVICE = `
  import { spawn } from "node:child_process";
  import { getPriority, setPriority } from "node:os";
  setPriority(Number(process.argv[1]));
  const { setNiceness, hasOwnNiceness } = await import(process.argv[2]);
  const guest = spawn("sleep", ["1000"], { stdio: "ignore", detached: true });
  const seen = [hasOwnNiceness(guest.pid)];
  for (const niceness of [0, 3, 19]) {
    setNiceness(guest.pid, niceness);
    seen.push(getPriority(guest.pid), hasOwnNiceness(guest.pid));
  }
  guest.kill("SIGKILL");
  console.log(JSON.stringify(seen));
`;

test("what a process gives way by is counted from the service, which may give way itself", () => {
  const own = givingWayBy(5);
  const module = new URL("../../src/processes/niceness.js", import.meta.url).href;
  const said = execFileSync(process.execPath, ["--input-type=module", "-e", SERVICE, String(own), module]);
  const more = Math.min(own + 3, 19);
  assert.deepEqual(JSON.parse(String(said)), [true, own, true, more, more === own, 19, own === 19]);
});
