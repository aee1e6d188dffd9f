import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { packageRoot } from "../../src/config.ts";

const LINUX = { skip: process.platform === "linux" ? false : "processes are looked at in /proc" };
/** The command line of a Berth of this checkout. */
const berthArgs = ["-e", "setInterval(() => {}, 1000)", join(packageRoot, "dist", "src", "cli.js")];
const processes = pathToFileURL(join(packageRoot, "scripts", "soak", "processes.mjs"));

/** Stands for a soak: starts processes, and prints which it counts, before and after it has ended them. */
const SOAK = `
import { spawn } from "node:child_process";
import { once } from "node:events";
import { descendants, markDescendants } from ${JSON.stringify(processes)};
markDescendants();
const berth = ${JSON.stringify(berthArgs)};
const excluded = spawn(process.execPath, berth);
const without = new Set(descendants().keys());
const child = spawn(process.execPath, berth);
// Another session, no environment, and another parent, as a guest has it whose Berth was killed.
const start = 'const { spawn } = require("node:child_process"); const orphan = spawn(process.execPath, ' +
  JSON.stringify(berth) + ', { detached: true, env: {}, stdio: "ignore" }); orphan.unref(); console.log(orphan.pid)';
const between = spawn(process.execPath, ["-e", start]);
const [text] = await once(between.stdout, "data");
await once(between, "exit");
const orphan = Number(text);
const counted = () => [...descendants(without).keys()];
console.log(JSON.stringify({ child: child.pid, orphan, excluded: excluded.pid, counted: counted() }));
process.kill(orphan);
child.kill();
await once(child, "exit");
while (counted().length > 0) await new Promise((again) => setTimeout(again, 20));
excluded.kill();
console.log("none");
`;

describe("the processes that a soak counts as its own", LINUX, () => {
  it("include orphans with another session and no environment, and no other Berth of the same checkout", async (t) => {
    const foreign = spawn(process.execPath, berthArgs, { stdio: "ignore" });
    t.after(() => foreign.kill());
    const soak = spawn(process.execPath, ["--input-type=module", "-e", SOAK], { stdio: ["ignore", "pipe", "inherit"] });
    t.after(() => soak.kill());
    const lines = createInterface({ input: soak.stdout })[Symbol.asyncIterator]();
    const { child, orphan, excluded, counted } = JSON.parse((await lines.next()).value as string);
    assert.deepEqual(new Set(counted), new Set([child, orphan]), `not ${foreign.pid}, nor ${excluded}`);
    assert.equal((await lines.next()).value, "none");
    if (soak.exitCode === null) await once(soak, "exit");
    assert.equal(soak.exitCode, 0);
  });
});
