import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** Fails unless each revision and extension passes the official suite with at least that number of checks. */
export async function passesConformance(
  options: string[],
  passedAtLeast: Readonly<Record<string, number>>,
): Promise<void> {
  const command = ["scripts/conformance/run.mjs", ...options];
  const { stdout } = await promisify(execFile)(process.execPath, command, { maxBuffer: 64 * 1024 * 1024 });
  assert.match(stdout, /Conformance: nothing failed/);
  for (const [what, atLeast] of Object.entries(passedAtLeast)) {
    const passed = Number(new RegExp(`^${what}: (\\d+) checks passed`, "m").exec(stdout)?.[1]);
    assert.ok(passed >= atLeast, `${what}: ${passed} checks passed, expected at least ${atLeast}`);
  }
}
