// docs/all-limits.md lists each limit that src/limits/limits.ts declares. `--write` makes the page anew.
import { readFileSync, writeFileSync } from "node:fs";
import { format } from "oxfmt";

const SOURCE = "src/limits/limits.ts";
const PAGE = "docs/all-limits.md";
const GROUP = /\/\*\* (The limits of [^*]+?)\.? \*\/\nconst \w+ = \{\n(.*?)\n\};/gs;
const LIMIT = /(?:\/\*\*(?<about>(?:(?!\*\/).)*)\*\/\s+)?(?<name>\w+): (?<value>[\d_ *]+),/gs;
const TENANT = /^ {2}(\w+): "(\w+)",$/gm;
const OF_MACHINE = /^ {2}(\w+): .+,$/gm;

const source = readFileSync(SOURCE, "utf8");
const membersOf = (name) => new RegExp(`const ${name} = \\{\\n(.*?)\\n\\}`, "s").exec(source)[1];
const ownNames = new Map([...membersOf("tenantLimitNames").matchAll(TENANT)].map(([, own, limit]) => [limit, own]));
const ofMachine = new Set([...membersOf("limitsOfMachine").matchAll(OF_MACHINE)].map(([, name]) => name));

const variable = (name) => `BERTH_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;

function valueOf(name, text) {
  const value = text.split("*").reduce((product, factor) => product * Number(factor.replaceAll("_", "").trim()), 1);
  for (const [unit, size] of Object.entries({ GiB: 2 ** 30, MiB: 2 ** 20, KiB: 2 ** 10 })) {
    if (/Bytes/.test(name) && value >= size) return `${value / size} ${unit}`;
  }
  const said = value.toLocaleString("en-US");
  if (/Bytes/.test(name)) return `${said} bytes`;
  if (name.endsWith("Mb")) return `${said} MB`;
  return name.endsWith("Ms") ? `${said} ms` : said;
}

/** One row for each comment: limits without one of their own belong to the comment before them. */
function rowsOf(members) {
  const rows = [];
  for (const { groups } of members.matchAll(LIMIT)) {
    const about = groups.about?.replaceAll(/\s*\n\s*\* ?/g, " ").trim();
    if (about !== undefined) rows.push({ about, limits: [] });
    rows.at(-1).limits.push(groups);
  }
  return rows.map(({ about, limits }) => {
    const each = (tell) =>
      limits
        .map(tell)
        .join("<br>")
        .replace(/^(<br>)+$/, "");
    const names = each(({ name }) => `\`${variable(name)}\``);
    const own = each(({ name }) => (ownNames.has(name) ? `\`${ownNames.get(name)}\`` : ""));
    const values = each(({ name, value }) => `${valueOf(name, value)}${ofMachine.has(name) ? " ÷" : ""}`);
    return `| ${names} | ${values} | ${about} | ${own} |`;
  });
}

const groups = [...source.matchAll(GROUP)].map(([, title, members]) =>
  [
    `## ${title}`,
    "",
    "| variable | default | bounds | of a tenant |",
    "| --- | --- | --- | --- |",
    ...rowsOf(members),
  ].join("\n"),
);
const intro =
  "Each limit is an environment variable; one with a name in the last column can also be set for one tenant " +
  "(`berth tenant limit`). One with ÷ is of the machine: each of N [workers](scaling.md) has an Nth of it, and of a " +
  "tenant's own. [limits.md](limits.md) explains those that matter to operators. " +
  "`node scripts/check-limits.mjs --write` makes this page from `src/limits/limits.ts`.";
const { code: page } = await format(
  PAGE,
  `# All limits\n\n${intro}\n\n${groups.join("\n\n")}\n`,
  JSON.parse(readFileSync(".oxfmtrc.json", "utf8")),
);

if (process.argv.includes("--write")) {
  writeFileSync(PAGE, page);
} else if (readFileSync(PAGE, "utf8") !== page) {
  console.error(`${PAGE} does not fit ${SOURCE}: node scripts/check-limits.mjs --write makes it anew.`);
  process.exitCode = 1;
} else {
  console.log(`${PAGE} lists the limits of ${SOURCE}.`);
}
