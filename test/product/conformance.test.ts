import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";

const run = promisify(execFile);

/** The number of passed checks must not fall: a suite that runs nothing must not look like one that passes. */
const PASSED_AT_LEAST = {
  "2025-03-26": 3,
  "2025-06-18": 56,
  "2025-11-25": 84,
  "2026-07-28": 152,
  "requirements of 2025-11-25": 84,
  "requirements of 2026-07-28": 152,
  tasks: 44,
  skills: 45,
};

test("S12 the official conformance suite passes in every revision, and the extensions of tasks and skills", async () => {
  await passes([], PASSED_AT_LEAST);
});

/** Fewer than directly: without a stream that is closed and resumed, and an answer that nobody has asked for. */
const HOSTED_PASSED_AT_LEAST = {
  "2025-03-26": 3,
  "2025-06-18": 56,
  "2025-11-25": 83,
  "2026-07-28": 151,
  "requirements of 2025-11-25": 83,
  "requirements of 2026-07-28": 195,
  tasks: 44,
  skills: 45,
};

test("J9 the official conformance suite passes on a Berth that hosts a Berth at an address", async () => {
  await passes(["--hosted"], HOSTED_PASSED_AT_LEAST);
});

test("J9 the official conformance suite passes on a Berth that hosts a Berth as a program", async () => {
  await passes(["--hosted-stdio"], HOSTED_PASSED_AT_LEAST);
});

test("C8 the suite has scenarios of authorization for clients and authorization servers, and none for servers", async () => {
  // If it has some, they belong into scripts/conformance: no other test here would notice them.
  const clients = "test/clients/node_modules";
  const list = [`${clients}/@modelcontextprotocol/conformance/dist/index.js`, "list"];
  const { stdout: forServers } = await run(`${clients}/.bin/node`, [...list, "--server"]);
  assert.match(forServers, /^ {2}- server-stateless /m);
  assert.doesNotMatch(forServers, /auth|oauth|token|protected-resource/i);
  const { stdout: forClients } = await run(`${clients}/.bin/node`, [...list, "--client"]);
  assert.match(forClients, /^ {2}- auth\/scope-step-up /m);
});

async function passes(options: string[], passedAtLeast: Readonly<Record<string, number>>): Promise<void> {
  const command = ["scripts/conformance/run.mjs", ...options];
  const { stdout } = await run(process.execPath, command, { maxBuffer: 64 * 1024 * 1024 });
  assert.match(stdout, /Conformance: nothing failed/);
  for (const [what, atLeast] of Object.entries(passedAtLeast)) {
    const passed = Number(new RegExp(`^${what}: (\\d+) checks passed`, "m").exec(stdout)?.[1]);
    assert.ok(passed >= atLeast, `${what}: ${passed} checks passed, expected at least ${atLeast}`);
  }
}
