import { isDeepStrictEqual } from "node:util";
import { getStaticTOMLValue, ParseError, parseTOML, traverseNodes, type AST } from "toml-eslint-parser";
import { faultAt, lineEnding, valueAt, type FileFormat } from "../../config-files/file-part.ts";
import { findReservedName } from "../../config-files/toml-names.ts";
import { isObject } from "../../lib/json.ts";
import { tomlTable } from "./clients.ts";

/** TOML. A part is a table of its own, `[path.name]`, with its subtables. */
export const toml: FileFormat = {
  empty: "",

  value: (file, text) => getStaticTOMLValue(parse(file, text)),

  add(file, text, part) {
    if ("element" in part) throw new Error("a TOML file has no parts that are list elements");
    const program = parse(file, text);
    const newLine = lineEnding(text);
    const block = tomlTable(part.path, part.value).join(newLine);
    const table = tablesAt(program, part.path).find(({ resolvedKey }) => resolvedKey.length === part.path.length);
    if (table) return text.slice(0, table.range[0]) + block + text.slice(table.range[1]);
    refuseOtherForms(file, text, program, part.path);
    if (text.trim() === "") return `${block}${newLine}`;
    // A file without a final line end stays without one, so that removing the part restores the same content.
    const hasLineEnd = text.endsWith("\n");
    return hasLineEnd ? `${text}${newLine}${block}${newLine}` : `${text}${newLine}${newLine}${block}`;
  },

  remove(file, text, part) {
    const tables = tablesAt(parse(file, text), part.path);
    if (tables.length === 0) refuseOtherForms(file, text, parse(file, text), part.path);
    const rest = tables.reduceRight((rest, { range }) => withoutTable(rest, range), text);
    return rest.trim() === "" ? "" : rest;
  },

  strings(file, text) {
    const ranges: [number, number][] = [];
    traverseNodes(parse(file, text), {
      enterNode(node) {
        if (node.type === "TOMLValue" && node.kind === "string") ranges.push([node.range[0], node.range[1]]);
      },
      leaveNode() {},
    });
    return ranges;
  },
};

function parse(file: string, text: string): AST.TOMLProgram {
  try {
    const program = parseTOML(text);
    const reserved = findReservedName(program);
    if (reserved) throw faultAt(file, text, reserved.range[0], "this name is reserved");
    return program;
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    throw faultAt(file, text, error.index, error.message.charAt(0).toLowerCase() + error.message.slice(1));
  }
}

/** The table of a path, and its subtables. */
function tablesAt({ body }: AST.TOMLProgram, path: readonly string[]): AST.TOMLTable[] {
  return body[0].body
    .filter((node) => node.type === "TOMLTable")
    .filter(({ resolvedKey }) => isDeepStrictEqual(resolvedKey.slice(0, path.length), [...path]));
}

/** There are three more notations of a table, which only a person can edit without changing the rest. */
function refuseOtherForms(file: string, text: string, program: AST.TOMLProgram, path: readonly string[]): void {
  const value: unknown = getStaticTOMLValue(program);
  const outer = valueAt(value, path.slice(0, -1));
  const exists = valueAt(value, path) !== undefined;
  const parent = program.body[0].body.find(
    (node) => node.type === "TOMLKeyValue" && isObject(outer) && firstKey(node) === path[0],
  );
  if (!exists && !parent) return;
  const name = path.join(".");
  const offset = (parent ?? program).range[0];
  throw faultAt(file, text, offset, `${name} is not written as a table [${name}]; edit it by hand`);
}

function firstKey({ key }: AST.TOMLKeyValue): string {
  const [first] = key.keys;
  return first!.type === "TOMLBare" ? first!.name : first!.value;
}

/** Includes its line end, and one empty line before it. */
function withoutTable(text: string, [from, to]: readonly [number, number]): string {
  const rest = text.slice(to).replace(/^\r?\n/, "");
  const hadLineEnd = rest.length < text.length - to;
  const head = text.slice(0, from).replace(/(\n)\r?\n$/, "$1");
  return (hadLineEnd ? head : head.replace(/\r?\n$/, "")) + rest;
}
