import { isDeepStrictEqual } from "node:util";
import { getStaticTOMLValue, ParseError, parseTOML, traverseNodes, type AST } from "toml-eslint-parser";
import { faultAt, lineEndOf, valueAt, type FileFormat } from "../../config-files/file-part.ts";
import { isObject } from "../../lib/json.ts";
import { tomlTable } from "./clients.ts";

/** TOML. A part is a table of its own, `[path.name]`, with those below it. */
export const toml: FileFormat = {
  empty: "",

  value: (file, text) => getStaticTOMLValue(read(file, text)),

  add(file, text, part) {
    if ("element" in part) throw new Error("no part of a TOML file is an element of a list");
    const program = read(file, text);
    const newLine = lineEndOf(text);
    const block = tomlTable(part.path, part.value).join(newLine);
    const table = tablesAt(program, part.path).find(({ resolvedKey }) => resolvedKey.length === part.path.length);
    if (table) return text.slice(0, table.range[0]) + block + text.slice(table.range[1]);
    refuseOtherForms(file, text, program, part.path);
    if (text.trim() === "") return `${block}${newLine}`;
    // A text whose last line has no end keeps that, so that what is removed leaves the same text.
    const isEnded = text.endsWith("\n");
    return isEnded ? `${text}${newLine}${block}${newLine}` : `${text}${newLine}${newLine}${block}`;
  },

  remove(file, text, part) {
    const tables = tablesAt(read(file, text), part.path);
    if (tables.length === 0) refuseOtherForms(file, text, read(file, text), part.path);
    const rest = tables.reduceRight((rest, { range }) => withoutTable(rest, range), text);
    return rest.trim() === "" ? "" : rest;
  },

  strings(file, text) {
    const ranges: [number, number][] = [];
    traverseNodes(read(file, text), {
      enterNode(node) {
        if (node.type === "TOMLValue" && node.kind === "string") ranges.push([node.range[0], node.range[1]]);
      },
      leaveNode() {},
    });
    return ranges;
  },
};

function read(file: string, text: string): AST.TOMLProgram {
  try {
    return parseTOML(text);
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    throw faultAt(file, text, error.index, error.message.charAt(0).toLowerCase() + error.message.slice(1));
  }
}

/** The table of a path, and those below it. */
function tablesAt({ body }: AST.TOMLProgram, path: readonly string[]): AST.TOMLTable[] {
  return body[0].body
    .filter((node) => node.type === "TOMLTable")
    .filter(({ resolvedKey }) => isDeepStrictEqual(resolvedKey.slice(0, path.length), [...path]));
}

/** There are three more ways to write a table, which only a person can edit without a change of the rest. */
function refuseOtherForms(file: string, text: string, program: AST.TOMLProgram, path: readonly string[]): void {
  const value: unknown = getStaticTOMLValue(program);
  const outer = valueAt(value, path.slice(0, -1));
  const isOwn = valueAt(value, path) !== undefined;
  const holder = program.body[0].body.find(
    (node) => node.type === "TOMLKeyValue" && isObject(outer) && keyOf(node) === path[0],
  );
  if (!isOwn && !holder) return;
  const name = path.join(".");
  const offset = (holder ?? program).range[0];
  throw faultAt(file, text, offset, `${name} is written in another way than [${name}]; change it by hand`);
}

function keyOf({ key }: AST.TOMLKeyValue): string {
  const [first] = key.keys;
  return first!.type === "TOMLBare" ? first!.name : first!.value;
}

/** With its line's end, and one empty line before it. */
function withoutTable(text: string, [from, to]: readonly [number, number]): string {
  const rest = text.slice(to).replace(/^\r?\n/, "");
  const isEnded = rest.length < text.length - to;
  const head = text.slice(0, from).replace(/(\n)\r?\n$/, "$1");
  return (isEnded ? head : head.replace(/\r?\n$/, "")) + rest;
}
