import { writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Calls from which secrets are costly to remove: calls that are retained, whose schemas mark many places as secret or
 * whose callers pass many passwords, and a function that logs while many secrets of its server begin alike.
 */

const many = (count, of) => Array.from({ length: count }, (_, index) => of(index));
const secret = { type: "string", format: "password" };
const any = { $ref: "#/$defs/any" };
const kind = (at) => ({
  properties: { kind: { const: at }, value: { anyOf: [any, secret] }, [`property${at}`]: { items: any } },
  additionalProperties: false,
});
const passwords = { properties: { passwords: { items: secret } } };
const KINDS = 130;
const item = (at) => ({ kind: at % KINDS, [`property${at % KINDS}`]: [{ kind: at % KINDS }] });

/** The schema of each tool, and its argument, which it returns. */
const retained = {
  union: [{ $defs: { any: { anyOf: many(KINDS, kind) } }, items: any }, many(800, item)],
  largeSchema: [
    { $defs: { any: { anyOf: many(KINDS, (at) => ({ allOf: [kind(at), { if: any }] })) } }, items: any },
    many(800, item),
  ],
  alternatives: [{ anyOf: many(1_000, (at) => ({ properties: { [`p${at % 50}`]: secret } })) }, many(800, item)],
  recursion: [
    {
      $defs: { any: { anyOf: many(4, (at) => ({ items: any, [`${at}`]: {}, properties: { p: secret, q: any } })) } },
      items: any,
    },
    JSON.parse(`${"[".repeat(100)}${"]".repeat(100)}`),
  ],
  alike: [passwords, { passwords: many(250, (at) => `aaaaaaaa${at}`), text: many(1_500, () => "aaaaaaaab") }],
  special: [
    passwords,
    { passwords: many(250, (at) => `"\\é%&<>/+${at}`.repeat(3)), text: "%41\\n\\u0041".repeat(800) },
  ],
  escapes: [passwords, { passwords: ["a password"], text: "\\\\n%41&lt;YWFhYWFhYWFh".repeat(600) }],
};
const names = many(250, (at) => `SECRET_${at}`);

/** The cases, by name: the server, the tool, and its arguments. */
export const secretCases = Object.fromEntries([
  ...Object.entries(retained).map(([name, [, value]]) => [`retained ${name}`, ["retained", name, { value }]]),
  ["redacted log", ["redacted", "log", { lines: 300 }]],
]);
/** Calls are retained after a second. */
export const RETAINED_MS = 3_000;

/** Writes the definitions; returns the entries. @param {string} sources */
export function secretEntries(sources) {
  const echo = (name) => `export function ${name}(value: unknown): unknown { return value; }\n`;
  writeFileSync(join(sources, "retained.ts"), Object.keys(retained).map(echo).join(""));
  writeFileSync(
    join(sources, "redacted.ts"),
    `export async function log(lines: number, context: import("berth").ToolContext): Promise<number> {
  for (const name of ${JSON.stringify(names)}) await context.secret(name);
  for (let line = 0; line < lines; line++) console.log("a".repeat(8_000) + "%41".repeat(100));
  return lines;
}\n`,
  );
  const tools = Object.entries(retained).map(([name, [schema]]) => [
    name,
    { inputSchema: { type: "object", $defs: schema.$defs ?? {}, properties: { value: schema } } },
  ]);
  return {
    retained: { definition: "retained.ts", tools: Object.fromEntries(tools), auto_discover: true, retain_calls: "1d" },
    redacted: { definition: "redacted.ts", secrets: names },
  };
}

/** Sets the secrets, which all begin alike. @param {number} port */
export async function setSecrets(port) {
  for (const [at, name] of names.entries()) {
    const headers = { "Content-Type": "text/plain" };
    const url = `http://127.0.0.1:${port}/api/secrets/${name}`;
    const response = await fetch(url, { method: "PUT", headers, body: `${"a".repeat(900)}${at}` });
    if (!response.ok) throw new Error(`the secret was not set: ${response.status} ${await response.text()}`);
  }
}
