import { isDeepStrictEqual } from "node:util";
import {
  evaluate,
  parse,
  traverse,
  type ArrayNode,
  type MemberNode,
  type ObjectNode,
  type ValueNode,
} from "@humanwhocodes/momoa";
import { faultAt, lineEnding, type FileFormat } from "./file-part.ts";

/** JSON as `JSON.parse` accepts it. */
export const json = jsonFormat("json");
/** JSON with comments and trailing commas. */
export const jsonc = jsonFormat("jsonc");

type Container = ObjectNode | ArrayNode;

/** Edits the text itself: editors that print a tree again move comments and change other lines. */
function jsonFormat(mode: "json" | "jsonc"): FileFormat {
  return {
    empty: "{}\n",

    value: (file, text) => evaluate(read(file, text)),

    add(file, text, part) {
      const { container, missing, last } = locate(file, text, part.path, read(file, text));
      if ("element" in part && last) {
        const list = expectList(file, text, last);
        if (findElement(list, part.element)) return text;
        return insert(text, list, (indent) => serialize(part.element, text, indent));
      }
      const value = "element" in part ? [part.element] : part.value;
      if (last) {
        if (isDeepStrictEqual(evaluate(last), value)) return text;
        const [from, to] = nodeRange(last);
        return text.slice(0, from) + serialize(value, text, indentAt(text, from)) + text.slice(to);
      }
      const [name, ...inner] = missing as [string, ...string[]];
      const whole = inner.reduceRight<unknown>((within, key) => ({ [key]: within }), value);
      return insert(text, container, (indent) => `${JSON.stringify(name)}: ${serialize(whole, text, indent)}`);
    },

    remove(file, text, part) {
      const root = read(file, text);
      const { missing, last } = locate(file, text, part.path, root);
      if (missing.length > 0 || !last) return text;
      let rest = text;
      if ("element" in part) {
        const list = expectList(file, text, last);
        const element = findElement(list, part.element);
        if (!element) return text;
        rest = without(text, list, element);
        if (list.elements.length > 1) return rest;
      }
      // From the inside out: containers that become empty are removed as well.
      for (let depth = part.path.length; depth > 0; depth--) {
        const path = part.path.slice(0, depth);
        const { container, last: value } = locate(file, rest, path, read(file, rest));
        if (!value || (rest !== text && !isEmpty(rest, value))) return rest;
        rest = without(
          rest,
          container,
          container.members.find((member) => member.value === value)!,
        );
      }
      return isEmpty(rest, read(file, rest)) ? "" : rest;
    },

    strings(file, text) {
      const ranges: [number, number][] = [];
      traverse(parseText(file, text), {
        enter(node, parent) {
          const isName = parent?.type === "Member" && (parent as MemberNode).name === node;
          if (node.type === "String" && !isName) ranges.push(nodeRange(node));
        },
      });
      return ranges;
    },
  };

  function read(file: string, text: string): ObjectNode {
    const { body } = parseText(file, text);
    if (body.type !== "Object") throw faultAt(file, text, nodeRange(body)[0], "an object is expected here");
    return body;
  }

  function parseText(file: string, text: string) {
    // An empty file counts as an empty object.
    if (text.trim() === "") return parse("{}", { mode, ranges: true });
    try {
      return parse(text, { mode, ranges: true, allowTrailingCommas: mode === "jsonc" });
    } catch (error) {
      const { offset = 0, message } = error as Error & { offset?: number };
      const reason = message.replace(/ \(\d+:\d+\)$/, "").replace(/ found\.$/, "");
      throw faultAt(file, text, offset, reason.charAt(0).toLowerCase() + reason.slice(1));
    }
  }
}

interface Location {
  /** The innermost object on the path that exists. */
  readonly container: ObjectNode;
  /** The rest of the path, which does not exist. */
  readonly missing: readonly string[];
  /** The value at the path's end. */
  readonly last: ValueNode | undefined;
}

function locate(file: string, text: string, path: readonly string[], root: ObjectNode): Location {
  let container = root;
  for (const [index, name] of path.entries()) {
    const members = container.members.filter((member) => memberName(member) === name);
    const [member, again] = members;
    if (again) throw faultAt(file, text, nodeRange(again)[0], `"${name}" appears twice`);
    if (!member) return { container, missing: path.slice(index), last: undefined };
    if (index === path.length - 1) return { container, missing: [], last: member.value };
    if (member.value.type !== "Object")
      throw faultAt(file, text, nodeRange(member.value)[0], `"${name}" is not an object`);
    container = member.value;
  }
  throw new Error("a path has a name");
}

function memberName({ name }: MemberNode): string {
  return name.type === "String" ? name.value : name.name;
}

function expectList(file: string, text: string, node: ValueNode): ArrayNode {
  if (node.type === "Array") return node;
  throw faultAt(file, text, nodeRange(node)[0], "a list is expected here");
}

function findElement(list: ArrayNode, element: unknown): ValueNode | undefined {
  return list.elements.find(({ value }) => isDeepStrictEqual(evaluate(value), element))?.value;
}

/** Adds an item after the last one. `printItem` gets the indentation of its line; undefined for the same line. */
function insert(text: string, container: Container, printItem: (indent: string | undefined) => string): string {
  if (text.trim() === "")
    return insert(`{}${lineEnding(text)}`, parse("{}", { ranges: true }).body as ObjectNode, printItem);
  const [start, end] = nodeRange(container);
  const close = end - 1;
  const last = listItems(container).at(-1);
  // Comments stay in place, after what they describe.
  const before = text.slice(0, close).trimEnd();
  const newLine = lineEnding(text);
  if (!last) {
    const outer = indentAt(text, start);
    const indent = outer + indentUnit(text);
    return `${before}${newLine}${indent}${printItem(indent)}${newLine}${outer}${text.slice(close)}`;
  }
  const [from, to] = nodeRange(last);
  const isTrailing = findComma(text, to, close) !== undefined;
  const head = text.slice(0, to) + (isTrailing ? "" : ",") + before.slice(to);
  const after = (isTrailing ? "," : "") + text.slice(before.length);
  if (!/[\r\n]/.test(text.slice(start, close))) return `${head} ${printItem(undefined)}${after}`;
  const ownLine = /(?:^|[\r\n])([ \t]*)$/.exec(text.slice(0, from));
  const indent = ownLine?.[1] ?? indentAt(text, start) + indentUnit(text);
  return `${head}${newLine}${indent}${printItem(indent)}${after}`;
}

function without(text: string, container: Container, item: Item): string {
  const items = listItems(container);
  const index = items.indexOf(item);
  const [start, end] = nodeRange(container);
  const [from, to] = nodeRange(item);
  const before = text.slice(0, from).trimEnd().length;
  const comma = findComma(text, to, end - 1);
  if (index < items.length - 1) return text.slice(0, before) + text.slice(comma! + 1);
  const previous = items[index - 1];
  if (!previous) {
    const rest = text.slice(comma === undefined ? to : comma + 1);
    return before === start + 1 ? text.slice(0, before) + rest.trimStart() : text.slice(0, before) + rest;
  }
  if (comma !== undefined) return text.slice(0, before) + text.slice(comma + 1);
  const separator = findComma(text, nodeRange(previous)[1], from)!;
  return text.slice(0, separator) + text.slice(separator + 1, before) + text.slice(to);
}

type Item = MemberNode | ValueNode;

function listItems(container: Container): readonly Item[] {
  return container.type === "Object" ? container.members : container.elements.map(({ value }) => value);
}

/** True if only its braces are left. */
function isEmpty(text: string, node: ValueNode): boolean {
  const [from, to] = nodeRange(node);
  return (node.type === "Object" || node.type === "Array") && text.slice(from + 1, to - 1).trim() === "";
}

/** The offset of the comma that follows, after whitespace and comments. */
function findComma(text: string, from: number, to: number): number | undefined {
  const blank = /(?:\s|\/\/[^\n\r]*|\/\*[\s\S]*?\*\/)*/y;
  blank.lastIndex = from;
  blank.exec(text);
  return blank.lastIndex < to && text[blank.lastIndex] === "," ? blank.lastIndex : undefined;
}

/** The whitespace at the beginning of a line. */
function indentAt(text: string, offset: number): string {
  const begin = Math.max(text.lastIndexOf("\n", offset - 1), text.lastIndexOf("\r", offset - 1)) + 1;
  return /^[ \t]*/.exec(text.slice(begin))![0];
}

/** One level of indentation, as the file uses it. */
function indentUnit(text: string): string {
  return /[\r\n]([ \t]+)\S/.exec(text)?.[1] ?? "  ";
}

function serialize(value: unknown, text: string, indent: string | undefined): string {
  if (indent === undefined) return JSON.stringify(value);
  return JSON.stringify(value, null, indentUnit(text)).replaceAll("\n", lineEnding(text) + indent);
}

function nodeRange({ range }: { range?: [number, number] | undefined }): [number, number] {
  return range!;
}
