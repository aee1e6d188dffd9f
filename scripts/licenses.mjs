import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Writes the licenses of the packages that these files are of, as each of them asks for where its code is copied.
 *
 * @param {string} folder of the bundle
 * @param {readonly string[]} files that were bundled
 */
export function writeLicenses(folder, files) {
  const packages = files.flatMap((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file) ?? []);
  const texts = [...new Set(packages)]
    .sort((one, other) => (one < other ? -1 : 1))
    .map((each) => {
      const { name, version, license } = JSON.parse(readFileSync(join(each, "package.json"), "utf8"));
      const own = readdirSync(each)
        .filter((file) => /^(?:licen[cs]e|notice)/i.test(file))
        .map((file) => readFileSync(join(each, file), "utf8").trim());
      return [`${name} ${version} (${license})`, ...own].join("\n\n");
    });
  const all = `The files beside this one contain code of these packages.\n\n${texts.join(`\n\n${"-".repeat(80)}\n\n`)}\n`;
  writeFileSync(join(folder, LICENSES), all);
}

export const LICENSES = "LICENSES.txt";
