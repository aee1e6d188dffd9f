import { isObject, tryParseJson } from "../../lib/json.ts";

/** An entry of `mcps` as its form changes it. Every other field stays as it is, and in its place. */
export type EntryValue = Readonly<Record<string, unknown>>;

/** Undefined for a text that is no object yet. */
export function readEntryText(text: string): EntryValue | undefined {
  const value = tryParseJson(text);
  return isObject(value) ? value : undefined;
}

export function entryTextOf(value: EntryValue): string {
  return Object.keys(value).length === 0 ? "{\n}\n" : `${JSON.stringify(value, null, 2)}\n`;
}

/** The entry with this field, or without it. */
export function withField(entry: EntryValue, name: string, field: unknown): EntryValue {
  const { [name]: _, ...others } = entry;
  if (field === undefined) return others;
  return { ...entry, [name]: field };
}

/** The tools of an entry as switches. */
export interface ToolSwitches {
  /** True if functions that the entry does not name become tools. */
  readonly isAuto: boolean;
  readonly tools: readonly { readonly name: string; readonly isOn: boolean }[];
}

/** `functions` are those of the definition, where they are known. */
export function switchesOf(entry: EntryValue, functions: readonly string[]): ToolSwitches {
  const named = toolsIn(entry);
  const isAuto = isAutoIn(entry);
  const names = [...new Set([...functions, ...Object.keys(named)])];
  return { isAuto, tools: names.map((name) => ({ name, isOn: isAuto || Object.hasOwn(named, name) })) };
}

/** Switches one tool; to switch one off, all others are named. `before` has what was said of it. */
export function switchTool(
  entry: EntryValue,
  functions: readonly string[],
  { name, isOn, before = {} }: { readonly name: string; readonly isOn: boolean; readonly before?: unknown },
): EntryValue {
  const named = isAutoIn(entry) ? { ...allOf(functions), ...toolsIn(entry) } : toolsIn(entry);
  const { [name]: _, ...others } = named;
  const tools = isOn ? { ...named, [name]: named[name] ?? before } : others;
  return withField(withField(entry, "auto_discover", false), "tools", tools);
}

/** Says if functions become tools that the entry does not name. */
export function switchAuto(entry: EntryValue, functions: readonly string[], isAuto: boolean): EntryValue {
  const named = toolsIn(entry);
  if (!isAuto) {
    return withField(withField(entry, "auto_discover", false), "tools", { ...allOf(functions), ...named });
  }
  // What says nothing of a function is no longer needed.
  const said = Object.entries(named).filter(
    ([name, tool]) => !functions.includes(name) || !isObject(tool) || Object.keys(tool).length > 0,
  );
  if (said.length === 0) return withField(withField(entry, "auto_discover", undefined), "tools", undefined);
  return withField(withField(entry, "auto_discover", true), "tools", Object.fromEntries(said));
}

function toolsIn({ tools }: EntryValue): EntryValue {
  return isObject(tools) ? tools : {};
}

function isAutoIn(entry: EntryValue): boolean {
  const { auto_discover: auto } = entry;
  return typeof auto === "boolean" ? auto : Object.keys(toolsIn(entry)).length === 0;
}

function allOf(functions: readonly string[]): EntryValue {
  return Object.fromEntries(functions.map((name) => [name, {}]));
}
