/** A process that writes two images over each other without end. The test that starts it kills it. */
import { writeSync } from "node:fs";
import { writeImage } from "../../src/image/write.ts";
import { countingCompiling, generated } from "./image-sources.ts";

const [first, second, out] = process.argv.slice(2) as [string, string, string];
const images = [await generated(first, {}, countingCompiling()), await generated(second, {}, countingCompiling())];
writeSync(1, "ready\n");
for (let turn = 0; ; turn++) writeImage(out, images[turn % 2]!);
