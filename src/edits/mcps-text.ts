import { CONFIG_CIDS_MAX, readConfigCid } from "../entry/entry.ts";
import { SCHEMA_KEY } from "../entry/fields.ts";
import { entryReadBounds, mcpsReadBounds } from "../entry/mcps.ts";
import type { ReadMcps } from "../host/directory/directory.ts";
import { isCid, rawBlock, type Cid } from "../lib/cid.ts";
import { placeProblems } from "../lib/json-source.ts";
import {
  objectSpan,
  parseObjectYielding,
  type MemberSpan,
  type ObjectBounds,
  type ObjectSpan,
  type Span,
} from "../lib/json-spans.ts";
import { indentedJson, isObject, type Json } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import type { NameMove, Store } from "../store/store.ts";
import { unlessDamaged } from "../store/unless-damaged.ts";
import type { ProposedStore } from "./proposed-store.ts";

/** The source of the configuration, stored as the variable's value or as content whose CID is the value. */
export interface McpsText {
  /** CID of the variable's value; null if there is no variable. */
  readonly variable: Cid | null;
  readonly text: string;
  readonly isReferred: boolean;
}

/** Each server's entry as written; `config_cid` is not followed. */
export interface RawEntries {
  get(name: string): unknown;
  has(name: string): boolean;
  keys(): Iterable<string>;
}

export async function readMcpsText(store: Store, tenant: string): Promise<McpsText> {
  const record = await store.name(tenant, "variable", "mcps");
  if (!record) return { variable: null, text: "{}\n", isReferred: false };
  return { variable: record.cid, ...(await readReferred(store, tenant, record.cid)) };
}

/** The configuration that a value of the variable contains or names. Damaged content counts as empty. */
async function readReferred(
  store: Store,
  tenant: string,
  variable: Cid,
): Promise<{ text: string; isReferred: boolean }> {
  const text = (await unlessDamaged(textAt(store, tenant, variable))) ?? "";
  const referred = text.trim();
  if (!isCid(referred)) return { text, isReferred: false };
  return { text: (await unlessDamaged(textAt(store, tenant, referred))) ?? "", isReferred: true };
}

/**
 * Proposes the JSON `value` at a path of the configuration, or its removal if null. The configuration stays stored in
 * the same way. Returns the CID of the variable's value.
 */
export async function writeMember(
  proposed: ProposedStore,
  tenant: string,
  mcps: McpsText,
  path: readonly string[],
  value: string | null,
): Promise<Cid> {
  const content = rawBlock(await withMember(mcps.text, path, value));
  const variable = mcps.isReferred ? rawBlock(content.cid) : content;
  const set: NameMove[] = [{ kind: "variable", name: "mcps", cid: variable.cid, expected: mcps.variable }];
  await proposed.change(tenant, { by: "edit", put: [content, variable], set });
  return variable.cid;
}

/** The outcome for a server was computed with this configuration, so the change must not apply to another one. */
export async function guardMcps(proposed: ProposedStore, tenant: string, { variable }: McpsText): Promise<void> {
  const set: NameMove[] = [{ kind: "variable", name: "mcps", cid: variable, expected: variable }];
  await proposed.change(tenant, { by: "edit", set });
}

/**
 * The entries of a source as written; undefined if it is not an object. If `known` was read from the same
 * configuration, nothing is parsed again: thousands of entries would take long.
 */
export async function rawEntriesIn({ variable, text }: McpsText, known?: ReadMcps): Promise<RawEntries | undefined> {
  if (known === undefined || known.cid !== variable) return readRawEntries(text, mcpsReadBounds());
  return toRawEntries(known.entries);
}

function toRawEntries(entries: object): RawEntries {
  const isEntry = (name: string): boolean => name !== SCHEMA_KEY && Object.hasOwn(entries, name);
  return {
    get: (name) => (isEntry(name) ? (entries as Record<string, unknown>)[name] : undefined),
    has: isEntry,
    keys: () => Object.keys(entries).filter((name) => name !== SCHEMA_KEY),
  };
}

/** The configuration after adding or removing one entry; undefined if only parsing can tell. */
export function withEntry(known: ReadMcps | undefined, cid: Cid, name: string, raw?: Json): ReadMcps | undefined {
  if (!known || (isObject(raw) && Object.hasOwn(raw, "config_cid"))) return undefined;
  if (raw !== undefined) return { cid, entries: { ...known.entries, [name]: raw } };
  const { [name]: _, ...others } = known.entries;
  return { cid, entries: others };
}

/** An entry can only be added to a readable configuration. */
export function unreadableMcps(entries: RawEntries | undefined): Problem[] {
  if (entries) return [];
  const message = "The variable mcps cannot be read; fix it first";
  return [{ code: "mcps-unreadable", message, severity: "error" }];
}

/** Undefined if the source is not an object of entries, or has too many; an entry that is too long is null. */
export async function readRawEntries(text: string, bounds: ObjectBounds): Promise<RawEntries | undefined> {
  try {
    const { value, tooMuch } = await parseObjectYielding(text, bounds);
    return isObject(value) && tooMuch !== "all" ? toRawEntries(value) : undefined;
  } catch {
    return undefined;
  }
}

/** The entry after following `config_cid`, and the CID of the content that contains it. */
export async function resolveEntry(
  store: Store,
  tenant: string,
  raw: unknown,
): Promise<{ entry: unknown; through?: Cid }> {
  let entry = raw;
  let through: Cid | undefined;
  for (let followed = 0; followed < CONFIG_CIDS_MAX; followed++) {
    const next = readConfigCid(entry);
    if (next === undefined) break;
    const text = await unlessDamaged(textAt(store, tenant, next));
    const referred = await readRawEntries(text ?? "", entryReadBounds());
    if (!referred) break;
    through = next;
    entry = Object.fromEntries(Array.from(referred.keys(), (key) => [key, referred.get(key)]));
  }
  return through === undefined || readConfigCid(entry) !== undefined ? { entry: raw } : { entry, through };
}

export async function textAt(store: Store, tenant: string, cid: Cid): Promise<string> {
  const bytes = isCid(cid) ? await store.content(tenant, cid) : undefined;
  return bytes ? decoder.decode(bytes) : "";
}

// A byte-order mark is part of the source, and of its CID.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** The source of an entry as shown and saved: the same for equal values, whatever the rest of `mcps` looks like. */
export function entryText(raw: unknown): string {
  return `${indentedJson(raw)}\n`;
}

/**
 * Puts the JSON `value` at a path of members, or removes the member if null, and preserves every other character of
 * `text`. `text` is JSON; all objects of the path but the last exist.
 */
export async function withMember(text: string, path: readonly string[], value: string | null): Promise<string> {
  const name = path.at(-1)!;
  const parent = await findObject(text, path.slice(0, -1));
  const member = findMember(parent, name);
  if (value === null) return member ? removeMember(text, parent, member) : text;
  if (member) return splice(text, member.value, indentLines(value, memberIndent(text, member)));
  return addMember(text, parent, `${JSON.stringify(name)}: `, value);
}

async function findObject(text: string, path: readonly string[]): Promise<ObjectSpan> {
  let object = await objectSpan(text, 0);
  for (const name of path) {
    const member = object && findMember(object, name);
    if (!member) throw new TypeError(`there is no "${name}"`);
    object = await objectSpan(text, member.value.start);
  }
  if (!object) throw new TypeError("it is not an object");
  return object;
}

/** Like `JSON.parse`, takes the last member if a key occurs twice. */
function findMember({ members }: ObjectSpan, name: string): MemberSpan | undefined {
  return members.findLast((member) => member.name === name);
}

function splice(text: string, { start, end }: Span, value: string): string {
  return text.slice(0, start) + value + text.slice(end);
}

function removeMember(text: string, { members }: ObjectSpan, member: MemberSpan): string {
  const index = members.indexOf(member);
  const [before, after] = [members[index - 1], members[index + 1]];
  // Also removes the comma before it; for the first member, the comma after it.
  const start = before ? before.end : member.start;
  const end = before || !after ? member.end : after.start;
  return text.slice(0, start) + text.slice(end);
}

function addMember(text: string, object: ObjectSpan, key: string, value: string): string {
  const last = object.members.at(-1);
  if (last) {
    const indent = memberIndent(text, last);
    const inserted = indent === undefined ? `, ${key}${value}` : `,\n${indent}${key}${indentLines(value, indent)}`;
    return text.slice(0, last.end) + inserted + text.slice(last.end);
  }
  const outer = lineIndent(text, object.start);
  const indent = `${outer}  `;
  return splice(text, object, `{\n${indent}${key}${indentLines(value, indent)}\n${outer}}`);
}

/** The white space before a member on a line of its own; undefined if it follows another one on its line. */
function memberIndent(text: string, { start }: Span): string | undefined {
  const indent = lineIndent(text, start);
  const lineStart = text.lastIndexOf("\n", start - 1) + 1;
  return lineStart + indent.length === start ? indent : undefined;
}

function lineIndent(text: string, offset: number): string {
  const line = text.slice(text.lastIndexOf("\n", offset - 1) + 1, offset);
  return /^[ \t]*/.exec(line)![0];
}

/** JSON strings contain no line ends, so every line may be indented. */
function indentLines(value: string, indent: string | undefined): string {
  return indent === undefined ? value : value.replaceAll(/\r?\n/g, `\n${indent}`);
}

/** Adds the positions of problems in the source that a person sees. */
export type LocateProblems = (problems: readonly Problem[]) => Promise<Problem[]>;

/**
 * Locates problems in a source by their JSON pointers. `prefix` is the part of the pointers that leads to the source
 * itself: other problems are unchanged. In a source that is not JSON, nothing is located.
 */
export function placeIn(tenant: string, file: string, text: string, prefix: readonly string[] = []): LocateProblems {
  const start = prefix.map((name) => `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
  const isInside = ({ pointer }: Problem): boolean =>
    pointer !== undefined && (pointer === start || pointer.startsWith(`${start}/`));
  const fromText = (problem: Problem): Problem => ({ ...problem, pointer: problem.pointer!.slice(start.length) });
  return async (problems) => {
    const inside = problems.filter(isInside).map(fromText);
    if (inside.length === 0) return [...problems];
    const located = (await placeProblems(file, text, inside, tenant))?.values();
    return problems.map((problem) => (located && isInside(problem) ? located.next().value! : problem));
  };
}
