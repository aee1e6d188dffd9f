import assert from "node:assert/strict";
import { test } from "node:test";
import { compareContracts } from "../../../src/contract/compare.ts";
import type { Contract } from "../../../src/contract/contract.ts";
import type { WithholdPolicy } from "../../../src/entry/withhold-fields.ts";
import { judge } from "../../../src/features/drift/drift.ts";
import { contractHash, knownParameters } from "../../../src/upstream/calls/contract-hash.ts";
import { toContract, surveyServer } from "../../../src/upstream/calls/survey.ts";
import { rows } from "../../support/rows.ts";
import { installed, withUpstream } from "../../support/upstreams.ts";

const BREAKING: WithholdPolicy = { changes: "breaking", texts: true, refuses: false };
const WITH_TEXTS: WithholdPolicy = { ...BREAKING, texts: false };

const playwright = (version: string): string => installed(`playwright-${version}/cli.js`);

test("playwright 0.0.56 to 0.0.64: required with a default, or no longer required, breaks nobody (J6)", async () => {
  const [lines, held] = await drift(playwright("0.0.56"), playwright("0.0.64"));
  assert.deepEqual(judged(lines, "breaking"), []);
  for (const required of ["browser_network_requests /includeStatic", "browser_take_screenshot /type"]) {
    assert.ok(judged(lines, "compatible").includes(required), required);
  }
  assert.ok(judged(lines, "compatible").includes("browser_click /element"));
  assert.equal((await held({ ...BREAKING, changes: "any" })).length, 22);
  const withTexts = ["browser_console_messages", "browser_navigate_back", "browser_network_requests"];
  assert.deepEqual(await held(BREAKING), withTexts);
  assert.deepEqual(await held(WITH_TEXTS), []);
});

test("playwright 0.0.64 to 0.0.70: a renamed flag, which the server silently ignores, breaks (J6)", async () => {
  const [lines] = await drift(playwright("0.0.64"), playwright("0.0.70"));
  assert.deepEqual(judged(lines, "breaking"), ["browser_install", "browser_network_requests /includeStatic → static"]);
  for (const required of ["requestBody", "requestHeaders"]) {
    assert.ok(judged(lines, "compatible").includes(`browser_network_requests /${required}`), required);
  }
});

test("sequential-thinking 2025.12.18 to 2026.8.31: wider flags break nobody, a claim to be read-only is withheld (J5, J6)", async () => {
  const folders = ["sequential-thinking-2025.12.18", "@modelcontextprotocol/server-sequential-thinking"];
  const [before, after] = await contracts(folders.map((folder) => installed(`${folder}/dist/index.js`)));
  const changes = compareContracts(before, after).filter(({ pointer }) => pointer?.includes("/properties/"));
  const wide = ["nextThoughtNeeded", "isRevision", "needsMoreThoughts"];
  const told = wide.map((name) => `compatible "${name}" is string as well as boolean.`);
  assert.deepEqual(rows(changes, "effect", "message"), told);
  const known = knownParameters(before);
  assert.notEqual(contractHash(after, known), contractHash(before, known), "types are part of the hash");

  assert.deepEqual(await heldOf(before, after), ["sequentialthinking"]);
  const { annotations, ...wider } = after.tools[0]!;
  assert.equal(annotations?.readOnlyHint, true);
  const { autoApproved } = await judge(before, { ...after, tools: [wider] }, { hold: BREAKING });
  assert.deepEqual(autoApproved, [{ subject: "tool", name: "sequentialthinking" }]);
  assert.deepEqual(await heldOf({ ...after, tools: [wider] }, before), ["sequentialthinking"], "narrowing back");
});

test("server-everything 2025.11.25 to 2026.8.31: tools under other names and spellings are recognized (J6)", async () => {
  const folders = ["everything-2025.11.25", "@modelcontextprotocol/server-everything"];
  const [before, after] = folders.map((folder) => `${installed(`${folder}/dist/index.js`)}?command=stdio`);
  const [lines] = await drift(before!, after!);
  const breaking = judged(lines, "breaking").filter((line) => !line.startsWith("test://"));
  assert.deepEqual(breaking, [
    "add → get-sum",
    "longRunningOperation → trigger-long-running-operation",
    "printEnv → get-env",
    "sampleLLM",
    "getTinyImage → get-tiny-image",
    "annotatedMessage → get-annotated-message",
    "getResourceReference → get-resource-reference",
    "getResourceLinks → get-resource-links",
    "structuredContent → get-structured-content",
    "structuredContent /location/enum",
    "zip",
    "simple_prompt → simple-prompt",
    "complex_prompt",
    "resource_prompt → resource-prompt",
    "resource_prompt /arguments/resourceType",
  ]);
});

/** `effect: name /argument → new name` for each change, and the tools that a policy withholds. */
async function drift(before: string, after: string): Promise<[string[], (hold: WithholdPolicy) => Promise<string[]>]> {
  const [old, now] = await contracts([before, after]);
  const lines = compareContracts(old, now).map(({ effect, name, pointer, renamedTo }) => {
    const at = pointer === undefined ? "" : ` ${pointer.replace("/inputSchema/properties", "")}`;
    return `${effect}: ${name}${at}${renamedTo === undefined ? "" : ` → ${renamedTo}`}`;
  });
  return [lines, (hold) => heldOf(old, now, hold)];
}

async function heldOf(before: Contract, after: Contract, hold = BREAKING): Promise<string[]> {
  return rows((await judge(before, after, { hold })).held.tools, "name");
}

function judged(lines: readonly string[], effect: string): string[] {
  return lines.flatMap((line) => (line.startsWith(`${effect}: `) ? [line.slice(effect.length + 2)] : []));
}

function contracts(uris: readonly string[]): Promise<[Contract, Contract]> {
  const seen = uris.map((uri) => withUpstream(uri, async (upstream) => toContract(await surveyServer(upstream))));
  return Promise.all(seen) as Promise<unknown> as Promise<[Contract, Contract]>;
}
