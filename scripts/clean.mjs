// Removes compiled files whose source is gone, so that a deleted test or module cannot live on in dist/.
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

if (existsSync("dist")) {
  for (const file of readdirSync("dist", { recursive: true, encoding: "utf8" })) {
    const source = file.replace(/\.(m?)js(\.map)?$/, ".$1ts");
    if (source !== file && !existsSync(source)) rmSync(join("dist", file));
  }
}
