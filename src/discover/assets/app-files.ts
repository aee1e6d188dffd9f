import { isObject, type JsonObject, tryParseJson } from "../../lib/json.ts";
import type { DefinitionSource, DiscoveredApp, ToolUi } from "../discovery.ts";

/**
 * `@ui <file.html> [model] [app]`, in the comment of a tool's function: the HTML file next to the definition that shows
 * the tool's results, and who may call the tool. The file's first comment may contain settings: `<!-- ui {"csp": …}
 * -->`.
 */
export interface UiTag {
  /** As written, relative to the file of the tag. */
  readonly file?: string;
  readonly visibility?: ToolUi["visibility"];
  /** A word that is not recognized. */
  readonly unknown?: string;
}

const CALLERS = ["model", "app"] as const;

export function readUiTag(text: string): UiTag {
  const words = text.split(/[\s,]+/).filter(Boolean);
  const file = words.find(isHtml);
  const named = CALLERS.filter((caller) => words.includes(caller));
  const unknown = words.find((word) => word !== file && !(CALLERS as readonly string[]).includes(word));
  return {
    ...(file !== undefined && { file }),
    ...(named.length === 1 && { visibility: named }),
    ...(unknown !== undefined && { unknown }),
  };
}

function isHtml(word: string): boolean {
  return /\.html?$/i.test(word);
}

/** The files named by `@ui` tags in a file's comments, with their offsets. For gathering, without a compiler. */
export function findUiFiles(text: string): { readonly file: string; readonly offset: number }[] {
  if (!text.includes("@ui")) return [];
  return [...text.matchAll(/\/\*\*[\s\S]*?\*\//g)].flatMap((comment) =>
    [...comment[0].matchAll(/(?<=^(?:\/\*\*)?[\s*]*)@ui[^\S\n]+([^\n*]*)/gm)].flatMap(
      ({ index, 0: whole, 1: words }) => {
        const { file } = readUiTag(words!);
        return file === undefined ? [] : [{ file, offset: comment.index + index + whole.indexOf(file) }];
      },
    ),
  );
}

/** Reads an app, without its settings if these are invalid; then `fault` says why. */
export function readApp(
  { server, files }: Pick<DefinitionSource, "server" | "files">,
  path: string,
): {
  readonly app: DiscoveredApp;
  readonly fault?: { readonly message: string; readonly start: number; readonly length: number };
} {
  const text = files[path]!;
  const { ui, fault } = readSettings(text);
  const uri = `ui://${encodeURIComponent(server)}/${path.split("/").map(encodeURIComponent).join("/")}`;
  return { app: { uri, file: path, ...(ui && { ui }) }, ...(fault && { fault }) };
}

/** Hosts interpret the settings that they support; only the structure is checked. */
function readSettings(text: string): {
  readonly ui?: JsonObject;
  readonly fault?: { readonly message: string; readonly start: number; readonly length: number };
} {
  const match = /^(?:\uFEFF|\s|<!doctype[^>]*>)*<!--\s*ui\s+([^>]*?)\s*-->/i.exec(text);
  if (!match) return {};
  const [whole, json = ""] = match;
  const fault = (message: string) => ({ fault: { message, start: whole.lastIndexOf(json), length: json.length } });
  const value = tryParseJson(json);
  if (value === undefined) return fault('the comment "ui" is not JSON');
  if (!isObject(value)) return fault('the comment "ui" must be an object, such as {"prefersBorder": true}');
  const { csp, permissions, prefersBorder, domain } = value;
  const unknown = Object.keys(value).find((name) => !SETTINGS.includes(name));
  if (unknown !== undefined)
    return fault(`the comment "ui" has no field "${unknown}"; its fields are ${SETTINGS.join(", ")}`);
  if (csp !== undefined && !(isObject(csp) && Object.entries(csp).every(isDomains))) {
    return fault(`"csp" must contain lists of origins: ${DOMAINS.join(", ")}`);
  }
  if (permissions !== undefined && !(isObject(permissions) && Object.values(permissions).every(isObject))) {
    return fault('"permissions" must be an object such as {"camera": {}}');
  }
  if (prefersBorder !== undefined && typeof prefersBorder !== "boolean")
    return fault('"prefersBorder" must be true or false');
  if (domain !== undefined && typeof domain !== "string") return fault('"domain" must be a string');
  return { ui: value };
}

const SETTINGS = ["csp", "permissions", "prefersBorder", "domain"];
const DOMAINS = ["connectDomains", "resourceDomains", "frameDomains", "baseUriDomains"];

function isDomains([name, list]: [string, unknown]): boolean {
  return DOMAINS.includes(name) && Array.isArray(list) && list.every((origin) => typeof origin === "string");
}
