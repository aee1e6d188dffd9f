import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import { passesConformance } from "../support/conformance.ts";

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

test("the official conformance suite passes in every revision, and the extensions of tasks and skills (S12)", async () => {
  await passesConformance([], PASSED_AT_LEAST);
});

test("the suite has scenarios of authorization for clients and authorization servers, and none for servers", async () => {
  // If it has some, they belong into scripts/conformance: no other test here would notice them.
  const clients = "test/clients/node_modules";
  const list = [`${clients}/@modelcontextprotocol/conformance/dist/index.js`, "list"];
  const { stdout: forServers } = await run(`${clients}/.bin/node`, [...list, "--server"]);
  assert.match(forServers, /^ {2}- server-stateless /m);
  assert.doesNotMatch(forServers, /auth|oauth|token|protected-resource/i);
  const { stdout: forClients } = await run(`${clients}/.bin/node`, [...list, "--client"]);
  assert.match(forClients, /^ {2}- auth\/scope-step-up /m);
});
