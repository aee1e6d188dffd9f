import { objectSpan, type MemberSpan, type ObjectSpan, type Span } from "../lib/json-spans.ts";

/**
 * Puts the JSON text `value` at a path of members, or removes the member when it is null, and leaves every other
 * character of `text` as its author wrote it. `text` is JSON; all objects of the path but the last exist.
 */
export async function withMember(text: string, path: readonly string[], value: string | null): Promise<string> {
  const name = path.at(-1)!;
  const parent = await objectAt(text, path.slice(0, -1));
  const member = memberOf(parent, name);
  if (value === null) return member ? without(text, parent, member) : text;
  if (member) return splice(text, member.value, indented(value, indentOf(text, member)));
  return withNew(text, parent, `${JSON.stringify(name)}: `, value);
}

async function objectAt(text: string, path: readonly string[]): Promise<ObjectSpan> {
  let object = await objectSpan(text, 0);
  for (const name of path) {
    const member = object && memberOf(object, name);
    if (!member) throw new TypeError(`there is no "${name}"`);
    object = await objectSpan(text, member.value.start);
  }
  if (!object) throw new TypeError("it is not an object");
  return object;
}

/** Like `JSON.parse`, takes the last member where a key occurs twice. */
function memberOf({ members }: ObjectSpan, name: string): MemberSpan | undefined {
  return members.findLast((member) => member.name === name);
}

function splice(text: string, { start, end }: Span, value: string): string {
  return text.slice(0, start) + value + text.slice(end);
}

function without(text: string, { members }: ObjectSpan, member: MemberSpan): string {
  const index = members.indexOf(member);
  const [before, after] = [members[index - 1], members[index + 1]];
  // Removes the comma before it, too; for the first member, the comma after it.
  const start = before ? before.end : member.start;
  const end = before || !after ? member.end : after.start;
  return text.slice(0, start) + text.slice(end);
}

function withNew(text: string, object: ObjectSpan, key: string, value: string): string {
  const last = object.members.at(-1);
  if (last) {
    const indent = indentOf(text, last);
    const written = indent === undefined ? `, ${key}${value}` : `,\n${indent}${key}${indented(value, indent)}`;
    return text.slice(0, last.end) + written + text.slice(last.end);
  }
  const outer = lineIndent(text, object.start);
  const indent = `${outer}  `;
  return splice(text, object, `{\n${indent}${key}${indented(value, indent)}\n${outer}}`);
}

/** The white space before a member on a line of its own; undefined for one that follows another on its line. */
function indentOf(text: string, { start }: Span): string | undefined {
  const indent = lineIndent(text, start);
  const lineStart = text.lastIndexOf("\n", start - 1) + 1;
  return lineStart + indent.length === start ? indent : undefined;
}

function lineIndent(text: string, offset: number): string {
  const line = text.slice(text.lastIndexOf("\n", offset - 1) + 1, offset);
  return /^[ \t]*/.exec(line)![0];
}

/** JSON strings contain no line ends, so every line may move. */
function indented(value: string, indent: string | undefined): string {
  return indent === undefined ? value : value.replaceAll(/\r?\n/g, `\n${indent}`);
}
