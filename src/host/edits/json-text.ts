import { parse, type MemberNode, type ObjectNode } from "@humanwhocodes/momoa";

/**
 * Puts the JSON text `value` at a path of members, or removes what stands there when it is null, and leaves every
 * other character of `text` as its author wrote it. `text` is JSON; all objects of the path but the last are there.
 */
export function withMember(text: string, path: readonly string[], value: string | null): string {
  const name = path.at(-1)!;
  const parent = objectAt(text, path.slice(0, -1));
  const member = memberOf(parent, name);
  if (value === null) return member ? without(text, parent, member) : text;
  if (member) return splice(text, member.value, indented(value, indentOf(text, member)));
  return withNew(text, parent, `${JSON.stringify(name)}: `, value);
}

function objectAt(text: string, path: readonly string[]): ObjectNode {
  let node = parse(text, { mode: "json" }).body;
  for (const name of path) {
    const member = node.type === "Object" ? memberOf(node, name) : undefined;
    if (!member) throw new TypeError(`there is no "${name}"`);
    node = member.value;
  }
  if (node.type !== "Object") throw new TypeError("it is not an object");
  return node;
}

/** As `JSON.parse` does, the last one counts where a key stands twice. */
function memberOf(object: ObjectNode, name: string): MemberNode | undefined {
  return object.members.findLast(({ name: key }) => (key.type === "String" ? key.value : key.name) === name);
}

interface Located {
  readonly loc: { readonly start: { readonly offset: number }; readonly end: { readonly offset: number } };
}

function splice(text: string, { loc }: Located, value: string): string {
  return text.slice(0, loc.start.offset) + value + text.slice(loc.end.offset);
}

function without(text: string, { members }: ObjectNode, member: MemberNode): string {
  const index = members.indexOf(member);
  const [before, after] = [members[index - 1], members[index + 1]];
  // The comma before it goes with it, or, of the first one, the comma after it.
  const start = before ? before.loc.end.offset : member.loc.start.offset;
  const end = before || !after ? member.loc.end.offset : after.loc.start.offset;
  return text.slice(0, start) + text.slice(end);
}

function withNew(text: string, object: ObjectNode, key: string, value: string): string {
  const last = object.members.at(-1);
  if (last) {
    const indent = indentOf(text, last);
    const written = indent === undefined ? `, ${key}${value}` : `,\n${indent}${key}${indented(value, indent)}`;
    return text.slice(0, last.loc.end.offset) + written + text.slice(last.loc.end.offset);
  }
  const outer = lineIndent(text, object.loc.start.offset);
  const indent = `${outer}  `;
  return splice(text, object, `{\n${indent}${key}${indented(value, indent)}\n${outer}}`);
}

/** The white space before a member that has a line of its own; undefined for one that stands behind another. */
function indentOf(text: string, { loc }: Located): string | undefined {
  const indent = lineIndent(text, loc.start.offset);
  const lineStart = text.lastIndexOf("\n", loc.start.offset - 1) + 1;
  return lineStart + indent.length === loc.start.offset ? indent : undefined;
}

function lineIndent(text: string, offset: number): string {
  const line = text.slice(text.lastIndexOf("\n", offset - 1) + 1, offset);
  return /^[ \t]*/.exec(line)![0];
}

/** JSON has no line ends inside of its texts, so that every line may move. */
function indented(value: string, indent: string | undefined): string {
  return indent === undefined ? value : value.replaceAll(/\r?\n/g, `\n${indent}`);
}
