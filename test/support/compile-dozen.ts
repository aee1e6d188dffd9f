import { openCompiler } from "../../src/discover/compiler.ts";
import { rawBlock } from "../../src/lib/cid.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { definitionOf, dozen, openSet } from "./tried-packages.ts";

/** Writes the CID of each bundle that this Node makes, as JSON. */
const { set, tarball } = await openSet(dozen);
const compiler = openCompiler(defaultLimits);
const cids: Record<string, string> = {};
for (const name of dozen) {
  const { bundle, problems } = await compiler.compile(definitionOf(name, set), { tarballs: tarball });
  cids[name] = bundle === undefined ? JSON.stringify(problems) : rawBlock(Buffer.from(bundle)).cid;
}
await compiler.close();
process.stdout.write(JSON.stringify(cids));
