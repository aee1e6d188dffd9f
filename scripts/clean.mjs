// Removes compiled files whose source is gone, so that a deleted test or module cannot live on in dist/.
// What stands in dist/browser is bundle-browser.mjs's own affair.
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

if (existsSync("dist")) {
  for (const file of readdirSync("dist", { recursive: true, encoding: "utf8" })) {
    const source = file.replace(/\.(m?)js(\.map)?$/, ".$1ts");
    if (source !== file && !file.startsWith("browser/") && !existsSync(source)) rmSync(join("dist", file));
  }
}
