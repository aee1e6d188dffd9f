// The boot image in boot/ is of the current compiler, which `tsc` has compiled before: an image of another one has its
// definitions compiled again.
import { readFileSync } from "node:fs";
import { compileKey } from "../dist/src/discover/key.js";
import { compilerIdentity } from "../dist/src/image/compiling.js";

const LOCK = "boot/image.lock.json";
const { compiler } = JSON.parse(readFileSync(LOCK, "utf8"));
const current = compilerIdentity({ key: compileKey });
if (Object.entries(current).some(([language, identity]) => compiler[language] !== identity)) {
  console.error(
    `${LOCK}: "compiler" is not the identity of the current compiler: another one compiled the boot image.`,
  );
  console.error("Run npm run boot, which builds Berth and runs node dist/bin/berth.cjs boot, and commit boot/.");
  process.exitCode = 1;
}
