// Runs the test suite: builds, sets up what tests need from outside, then Node's own runner over dist/test.
// Extra arguments choose files by a part of their name: `npm test -- discover store`.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";

const chosen = process.argv.slice(2);
const files = readdirSync("dist/test", { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".test.js"))
  .filter((file) => chosen.length === 0 || chosen.some((part) => file.includes(part)))
  .map((file) => join("dist/test", file))
  .sort();

if (files.length === 0) {
  console.error(`No test file's name holds any of: ${chosen.join(", ")}`);
  process.exit(1);
}
// Tests are about what is compiled, not about how fast a busy machine does it.
const env = { BERTH_COMPILE_MS: "60000", ...process.env };
const args = ["--enable-source-maps", "--test", "--test-reporter=spec", ...files];
const { status } = spawnSync(process.execPath, args, { stdio: "inherit", env });
process.exit(status ?? 1);
