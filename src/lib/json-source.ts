import { parse, type AnyNode, type MemberNode, type ValueNode } from "@humanwhocodes/momoa";
import { codeFrame } from "./code-frame.ts";
import { BerthError } from "./errors.ts";
import { FairSemaphore } from "./fair-semaphore.ts";
import type { Json, JsonObject } from "./json.ts";
import { furtherProblems, PROBLEMS_MAX, type Problem } from "./problem.ts";
import { runInThread } from "./run-in-thread.ts";

/** A JSON value with its position in the source, so that any problem with it can be shown there. */
export interface JsonNode {
  readonly value: Json;
  readonly at: SourcePosition;
  /** The members of an object, in source order. */
  readonly members?: ReadonlyMap<string, JsonMember>;
  /** The elements of an array. */
  readonly elements?: readonly JsonNode[];
}

interface JsonMember {
  /** The position of the key. */
  readonly at: SourcePosition;
  readonly node: JsonNode;
}

/** A position in a source file. `line` and `column` count from 1, columns in UTF-16 code units. */
export interface SourcePosition {
  readonly file: string;
  readonly text: string;
  readonly line: number;
  readonly column: number;
  /** The offset in the text, from 0, if known. */
  readonly offset?: number;
  readonly pointer: string;
}

/** Parses strict JSON (RFC 8259). Duplicate keys are problems, as is everything that `JSON.parse` rejects. */
export function parseJsonSource(file: string, text: string): { root?: JsonNode; problems: Problem[] } {
  const problems: Problem[] = [];
  try {
    JSON.parse(text);
    const source = { file, text, problems, further: 0 };
    const root = toNode(parse(text, { mode: "json" }).body, "", source);
    if (source.further > 0) {
      const { code, message } = furtherProblems(source.further, "error");
      problems.push(problemAt(root.at, code, message));
    }
    return { root, problems };
  } catch (error) {
    const { line, column, reason } = findFault(text, error as Error);
    return { problems: [problemAt({ file, text, line, column, pointer: "" }, "invalid-json", `Not JSON: ${reason}`)] };
  }
}

/** Finds the problems in a JSON text of a tenant. Delays no other tenant, however long the text is. */
export async function jsonProblems(file: string, text: string, tenant: string): Promise<Problem[]> {
  if (text.length <= SHORT_UNITS) return parseJsonSource(file, text).problems;
  const outcome = await runJob({ file, text }, tenant);
  if (!("why" in outcome)) return outcome.problems ?? [];
  const message = `It could not be read ${outcome.why}; make it smaller`;
  return [{ code: "invalid-json", message, severity: "error", file, line: 1, column: 1 }];
}

/** Like `parseJsonSource`, in a tenth of the time for a valid text. Runs in the thread. */
export function longJsonProblems(file: string, text: string): Problem[] {
  try {
    JSON.parse(text);
    if (!hasDuplicateKeys(text)) return [];
  } catch {
    // Reported below, with its position.
  }
  return parseJsonSource(file, text).problems;
}

/** Like `placedIn`; undefined for a text that is not JSON or takes too long. */
export async function placeProblems(
  file: string,
  text: string,
  problems: readonly Problem[],
  tenant: string,
): Promise<Problem[] | undefined> {
  if (text.length > SHORT_UNITS) {
    const outcome = await runJob({ file, text, problems }, tenant);
    return "why" in outcome ? undefined : outcome.problems;
  }
  const { root } = parseJsonSource(file, text);
  return root && withPositions(root, problems);
}

/** Problems with the positions of their pointers; if one leads to nothing, that of the nearest enclosing value. */
export function withPositions(root: JsonNode, problems: readonly Problem[]): Problem[] {
  return problems.map((problem) => {
    const { code, message, severity, pointer = "" } = problem;
    return { ...problem, ...problemAt(nodeAt(root, pointer).at, code, message, severity), pointer };
  });
}

/** The thread's input: with `problems` it finds their positions, otherwise it finds problems. */
export interface LongSource {
  readonly file: string;
  readonly text: string;
  readonly problems?: readonly Problem[];
}

/** Parsing with all positions takes about half a microsecond per character. */
const SHORT_UNITS = 16 * 1024;
const workerFile = new URL("./json-source-worker.js", import.meta.url);

/** A longer text may take seconds, and would delay shorter ones. */
const MEDIUM_UNITS = 256 * 1024;

/** The most queued texts of one tenant; each is in memory meanwhile. */
const TEXTS_WAITING_MAX = 16;
/** One thread for medium texts and one for long ones, however many tenants have texts. */
const queues = { medium: newQueue(), long: newQueue() };

function newQueue(): FairSemaphore {
  return new FairSemaphore(1, TEXTS_WAITING_MAX, () => 1);
}

/** When a full queue may have a free slot. */
const RETRY_AFTER_S = 1;

/** The thread's result, or why there is none. */
async function runJob(source: LongSource, tenant: string): Promise<{ problems?: Problem[] } | { why: string }> {
  const queue = queues[source.text.length > MEDIUM_UNITS ? "long" : "medium"];
  const slot = queue.enter(tenant, () => {});
  if (!slot) {
    throw new BerthError(
      "too_many_requests",
      `${TEXTS_WAITING_MAX} long texts of the tenant are waiting to be read; try again in ${RETRY_AFTER_S} s`,
      { data: { retryAfterSeconds: RETRY_AFTER_S } },
    );
  }
  await slot;
  try {
    const outcome = await runInThread(workerFile, source);
    if ("why" in outcome) return outcome;
    const problems = outcome.result as Problem[] | undefined;
    return problems ? { problems } : {};
  } finally {
    queue.leave(tenant);
  }
}

/** `text` must be valid JSON. */
function hasDuplicateKeys(text: string): boolean {
  const open: (Set<string> | undefined)[] = [];
  let last: string | undefined;
  for (const [token] of text.matchAll(TOKENS)) {
    if (token === "{") open.push(new Set());
    else if (token === "[") open.push(undefined);
    else if (token === "}" || token === "]") open.pop();
    else if (token === ":") {
      const keys = open.at(-1)!;
      const key = last!.includes("\\") ? (JSON.parse(last!) as string) : last!.slice(1, -1);
      if (keys.has(key)) return true;
      keys.add(key);
    } else last = token;
  }
  return false;
}

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:]/g;

/** The node that a pointer leads to; if there is none, the nearest enclosing node. */
export function nodeAt(root: JsonNode, pointer: string): JsonNode {
  let node = root;
  for (const step of pointer.split("/").slice(1)) {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    const inner: JsonNode | undefined = node.members?.get(key)?.node ?? node.elements?.[Number(key)];
    if (!inner) break;
    node = inner;
  }
  return node;
}

export function problemAt(
  at: SourcePosition,
  code: string,
  message: string,
  severity: Problem["severity"] = "error",
): Problem {
  const { file, line, column, pointer } = at;
  return { code, message, severity, file, line, column, pointer, frame: formatFrame(at) };
}

interface Source {
  readonly file: string;
  readonly text: string;
  readonly problems: Problem[];
  /** The number of further problems. */
  further: number;
}

function toNode(node: ValueNode, pointer: string, source: Source): JsonNode {
  const at = toPosition(node, pointer, source);
  switch (node.type) {
    case "Object":
      return objectNode(node.members, at, source);
    case "Array": {
      const elements = node.elements.map(({ value }, index) => toNode(value, `${pointer}/${index}`, source));
      return { value: elements.map(({ value }) => value), at, elements };
    }
    case "Null":
      return { value: null, at };
    case "String":
    case "Number":
    case "Boolean":
      return { value: node.value, at };
    default:
      throw new SyntaxError(`${node.type} is not a JSON value`);
  }
}

function objectNode(memberNodes: readonly MemberNode[], at: SourcePosition, source: Source): JsonNode {
  const members = new Map<string, JsonMember>();
  for (const { name, value } of memberNodes) {
    const key = name.type === "String" ? name.value : name.name;
    const pointer = `${at.pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    const keyAt = toPosition(name, pointer, source);
    const node = toNode(value, pointer, source);
    const first = members.get(key);
    if (first && source.problems.length >= PROBLEMS_MAX) {
      source.further += 1;
    } else if (first) {
      const message = `"${key}" appears twice; the first is on line ${first.at.line}`;
      source.problems.push(problemAt(keyAt, "duplicate-key", message));
    } else {
      members.set(key, { at: keyAt, node });
    }
  }
  const value: JsonObject = Object.fromEntries([...members].map(([key, { node }]) => [key, node.value]));
  return { value, at, members };
}

function toPosition(node: AnyNode, pointer: string, { file, text }: Source): SourcePosition {
  const { line, column, offset } = node.loc.start;
  return { file, text, line, column, offset, pointer };
}

interface Fault {
  readonly line: number;
  readonly column: number;
  readonly reason: string;
}

/** Where and why a text is not JSON. V8's message is best if it has the offset; or else momoa knows the position. */
function findFault(text: string, error: Error): Fault {
  if (error instanceof RangeError) return { line: 1, column: 1, reason: "nested too deeply" };
  if (text.startsWith("\uFEFF")) {
    return { line: 1, column: 1, reason: "the file starts with a byte-order mark; save it as UTF-8 without one" };
  }
  const end = text.trimEnd().length;
  const offset = Number(/position (\d+)/.exec(error.message)?.[1] ?? (/ end of /.test(error.message) ? end : NaN));
  if (offset >= end) return faultAt(text, end, "the file ends too early");
  if (offset >= 0) return faultAt(text, offset, toClause(error.message.replace(/ (in|after) JSON at.*$/s, "")));
  try {
    parse(text, { mode: "json" });
  } catch (momoaError) {
    const { message, line = 1, column = 1 } = momoaError as Error & { line?: number; column?: number };
    const reason = message.replace(/ \(\d+:\d+\)$/, "");
    return { line, column, reason: sentences[reason] ?? toClause(reason) };
  }
  return { line: 1, column: 1, reason: toClause(error.message) };
}

function faultAt(text: string, offset: number, reason: string): Fault {
  const before = text.slice(0, offset).split(LINE_END);
  return { line: before.length, column: before.at(-1)!.length + 1, reason };
}

const LINE_END = /\r\n|[\n\r]/;

const sentences: Record<string, string> = {
  "Unexpected token RBrace found.": "a value was expected before this `}`",
  "Unexpected token RBracket found.": "a value was expected before this `]`; is there an extra comma?",
};

function toClause(reason: string): string {
  return reason.charAt(0).toLowerCase() + reason.slice(1).replace(/ found\.$/, "");
}

const FRAME_CHARACTERS = 160;

/** The line of a position; for a very long line, the part around it. */
function formatFrame({ text, line, column, offset }: SourcePosition): string {
  const begin = offset === undefined ? 0 : offset - column + 1;
  // A text with many faults must not be split into lines for each of them.
  const whole =
    offset === undefined
      ? (text.split(LINE_END)[line - 1] ?? "")
      : text.slice(begin, offset) + text.slice(offset, offset + FRAME_CHARACTERS).split(LINE_END, 1)[0]!;
  const start = Math.max(0, Math.min(column - 1 - FRAME_CHARACTERS / 2, whole.length - FRAME_CHARACTERS));
  return codeFrame(whole.slice(start, start + FRAME_CHARACTERS), line, column - start);
}
