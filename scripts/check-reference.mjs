// The generated parts of docs/settings.md (limits), docs/reference.md (fields of entries, error codes), mcps.schema.json
// (fields of entries) and reference_templates/README.md (tags) match the code. `--write` updates them.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { format } from "oxfmt";

const SOURCE = "src/limits/limits.ts";
const SETTINGS = "docs/settings.md";
const NAMES = "src/compose/unknown-settings.ts";
const BEGIN = "<!-- generated: node scripts/check-reference.mjs --write -->";
const END = "<!-- /generated -->";
const GROUP = /\/\*\* The limits of ([^*]+?)\.? \*\/\nconst \w+ = \{\n(.*?)\n\};/gs;
const LIMIT = /(?:\/\*\*(?<about>(?:(?!\*\/).)*)\*\/\s+)?(?<name>\w+): (?<value>[\d_ *]+),/gs;
const TENANT = /^ {2}(\w+): "(\w+)",$/gm;
const OF_MACHINE = /^ {2}(\w+): .+,$/gm;

const source = readFileSync(SOURCE, "utf8");
const membersOf = (name) => new RegExp(`const ${name} = \\{\\n(.*?)\\n\\}`, "s").exec(source)[1];
const ownNames = new Map([...membersOf("tenantLimitNames").matchAll(TENANT)].map(([, own, limit]) => [limit, own]));
const ofMachine = new Set([...membersOf("machineLimits").matchAll(OF_MACHINE)].map(([, name]) => name));

const variable = (name) => `BERTH_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;

function valueOf(name, text) {
  const value = text.split("*").reduce((product, factor) => product * Number(factor.replaceAll("_", "").trim()), 1);
  for (const [unit, size] of Object.entries({ GiB: 2 ** 30, MiB: 2 ** 20, KiB: 2 ** 10 })) {
    if (/Bytes/.test(name) && value >= size) return `${value / size} ${unit}`;
  }
  const number = value.toLocaleString("en-US");
  if (/Bytes/.test(name)) return `${number} bytes`;
  if (name.endsWith("Mb")) return `${number} MB`;
  return name.endsWith("Ms") ? `${number} ms` : number;
}

function comment(text) {
  return text.replaceAll(/\s*\n\s*\* ?/g, " ").trim();
}

/** One row for each comment: limits without one of their own belong to the comment before them. */
function rowsOf(members) {
  const rows = [];
  for (const { groups } of members.matchAll(LIMIT)) {
    const about = groups.about && comment(groups.about);
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
    `### ${title[0].toUpperCase()}${title.slice(1)}`,
    "",
    "| variable | default | bounds | of a tenant |",
    "| --- | --- | --- | --- |",
    ...rowsOf(members),
  ].join("\n"),
);

const cell = (text) => text.replaceAll("|", "\\|").replaceAll(/\s+/g, " ");

const ERROR = /^ {2}(\w+): \{\s*status: (\d+),\s*rpc: (-?\d+),\s*message: "([^"]+)",?\s*\},/gm;
const codes = [...readFileSync("src/lib/errors.ts", "utf8").matchAll(ERROR)].map(
  ([, code, status, rpc, message]) => `| \`${code}\` | ${status} | ${rpc} | ${cell(message)} |`,
);

const SCHEMA = "reference_templates/mcps.schema.json";
const FIELDS = "src/entry/entry-fields.ts";
const ABOUT = /\/\*\*((?:(?!\*\/).)*)\*\/\s+(\w+): \{/gs;
const TYPES = { text: "string", boolean: "boolean", object: "object", list: "array" };

/** The exports of a module of src. */
async function load(file) {
  const outfile = join(mkdtempSync(join(tmpdir(), "berth-reference-")), "module.mjs");
  try {
    await build({ entryPoints: [file], bundle: true, format: "esm", platform: "node", outfile });
    return await import(pathToFileURL(outfile));
  } finally {
    rmSync(dirname(outfile), { recursive: true });
  }
}

/**
 * The parts of the JSON Schema of an entry that come from single fields. Combinations of fields, tools, resources, prompts
 * and icons are written by hand.
 */
function entrySchema(table) {
  const abouts = new Map(
    [...readFileSync(FIELDS, "utf8").matchAll(ABOUT)].map(([, about, name]) => [name, comment(about)]),
  );
  const onlyFor = ([name, { only: [kind] = [] }]) => {
    const [upstream, command] = [{ required: ["upstream"] }, { required: ["command"] }];
    if (name === "upstream") return [];
    if (name === "command") return [{ required: [name, "upstream"] }];
    if (name === "args" || name === "cwd") return [{ required: [name], not: command }];
    if (kind === "definitions")
      return [{ required: [name, "upstream"] }, ...(name === "env" ? [] : [{ required: [name, "command"] }])];
    return kind === "upstreams" ? [{ required: [name], not: { anyOf: [upstream, command] } }] : [];
  };
  const properties = table.map(([name, { type, schema }]) => {
    return [name, { ...(!schema?.enum && { type: TYPES[type] }), ...schema, description: abouts.get(name) }];
  });
  return { properties: Object.fromEntries(properties), not: { anyOf: table.flatMap(onlyFor) } };
}

const schema = JSON.parse(readFileSync(SCHEMA, "utf8"));
const { entry } = schema.$defs;
Object.assign(entry, entrySchema((await load(FIELDS)).entryFieldList));
const typeOf = ({ type, enum: values }) => (values ? values.map((value) => `\`"${value}"\``).join(", ") : type);
const fields = Object.entries(entry.properties)
  .toSorted(([one], [other]) => (one < other ? -1 : 1))
  .map(([name, field]) => `| \`${name}\` | ${cell(typeOf(field))} | ${cell(field.description)} |`);

const PLACES = { any: "any comment", argument: "argument, property", function: "function", script: "script" };
const { tagRules } = await load("src/discover/tags/tags.ts");
const isOfArgument = ({ at }) => Number(at.includes("argument"));
const sorted = tagRules.toSorted((one, other) => isOfArgument(one) - isOfArgument(other));
const tags = sorted.map(({ name, at, form, help }) => {
  const places = at.flatMap((place) => PLACES[place] ?? []).join(", ");
  return `| \`@${name}${form ? ` ${cell(form)}` : ""}\` | ${places} | ${cell(help)} |`;
});

const pages = {
  "reference_templates/README.md": ["| tag | where | meaning |", "| --- | --- | --- |", ...tags].join("\n"),
  [SETTINGS]: groups.join("\n\n"),
  "docs/reference.md": [
    "## Fields of an entry",
    "",
    "| field | type | meaning |",
    "| --- | --- | --- |",
    ...fields,
    "",
    "## Error codes",
    "",
    "| code | HTTP | JSON-RPC | message |",
    "| --- | --- | --- | --- |",
    ...codes,
  ].join("\n"),
};

const between = ([path, generated]) => {
  const page = readFileSync(path, "utf8");
  const [begin, end] = [page.indexOf(BEGIN) + BEGIN.length, page.indexOf(END)];
  return [path, `${page.slice(0, begin)}\n\n${generated}\n\n${page.slice(end)}`];
};

const options = JSON.parse(readFileSync(".oxfmtrc.json", "utf8"));
for (const [path, text] of [...Object.entries(pages).map(between), [SCHEMA, JSON.stringify(schema)]]) {
  const before = readFileSync(path, "utf8");
  const { code: after } = await format(path, text, options);
  if (process.argv.includes("--write")) writeFileSync(path, after);
  else if (before !== after) {
    console.error(`${path} is out of date: run node scripts/check-reference.mjs --write.`);
    process.exitCode = 1;
  }
}

// The settings that are no limits are in a table that is written by hand.
const settings = readFileSync(SETTINGS, "utf8");
const others = /const SETTINGS =\s+"([A-Z_ ]+)"/.exec(readFileSync(NAMES, "utf8"))[1].split(" ");
const missing = others.filter((name) => !name.endsWith("_FILE") && !settings.includes(`| \`BERTH_${name}\``));
if (missing.length > 0) {
  console.error(`${SETTINGS} lacks settings of ${NAMES}: ${missing.join(", ")}`);
  process.exitCode = 1;
}
