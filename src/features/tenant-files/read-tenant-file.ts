import { createHash } from "node:crypto";
import { entryBounds } from "../../entry/entry-bounds.ts";
import { serverNameProblem, variableNameProblem } from "../../entry/fields.ts";
import { isCid, isStructure, matches, type Cid } from "../../lib/cid.ts";
import { isObject, nestsTooDeep, type JsonObject } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import { isTenantName } from "../../lib/tenant-name.ts";
import { fixed } from "../../limits/fixed.ts";
import { limitVariable, type Limits } from "../../limits/limits.ts";
import { valueBounds } from "../../limits/value-bounds.ts";
import { nameFault } from "../../secrets/secret-rules.ts";
import {
  valueKinds,
  type NamedChange,
  type ServerValue,
  type TenantStaging,
  type ValueKind,
} from "../../store/store.ts";
import { keyProblem, serverLimits, valueProblem } from "../../store/value-rules.ts";
import { meaningProblem, structureProblem } from "./structures.ts";
import {
  lineStarts,
  changeLine,
  FORMAT,
  FORMAT_VERSION,
  contentLine,
  valueLine,
  kindsOfNames,
  noValues,
  type TenantFileCounts,
  type TenantFileHeader,
} from "./tenant-file.ts";

const bounds = fixed({
  /** The size of an imported tenant's file, and of its longest line, which is a content: a tarball in base64 fits. */
  importBytes: 8 * 1024 * 1024 * 1024,
  importLineBytes: 48 * 1024 * 1024,
});

export interface ReadOptions extends CheckOptions {
  /** Receives the header before the rest is read. A rejection stops the reading. */
  readonly onHeader?: (header: TenantFileHeader) => Promise<void>;
}

type Into = Pick<TenantStaging, "put" | "content" | "add" | "addValue">;

/** The contents of a file, or all its problems. */
type ReadTenantFile =
  | { readonly problems: readonly Problem[] }
  | {
      readonly problems: undefined;
      readonly header: TenantFileHeader;
      readonly counts: TenantFileCounts;
      /** The bytes of content, as stored. */
      readonly bytes: number;
      /** The value of the variable `mcps`. */
      readonly mcps: Cid | undefined;
      readonly secretNames: readonly string[];
    };

/** The most problems of a file that are listed. */
const PROBLEMS_MAX = 100;

/**
 * Reads a tenant's file, puts its contents into `into`, and checks everything: that each content matches its CID, that
 * names are valid and refer to content in the same file, and that the file is complete and unchanged. One line at a
 * time is in memory. Does not throw for problems of the file.
 */
export async function readTenantFile(
  source: AsyncIterable<Uint8Array>,
  into: Into,
  options: ReadOptions,
): Promise<ReadTenantFile> {
  const { importBytes, importLineBytes } = bounds;
  const checks = new TenantFileChecks(into, options);
  let isTooLong = false as boolean;
  const pieces = bounded(source, importBytes, () => (isTooLong = true));
  for await (const line of linesOf(pieces, importLineBytes)) {
    await checks.takeLine(line, importLineBytes);
    // If this is not a tenant file, further problems would not help.
    if (!checks.header || checks.problems.length >= PROBLEMS_MAX) break;
    if (line.number === 1) await options.onHeader?.(checks.header);
  }
  if (isTooLong) checks.complain("file-too-long", `The file has more than ${importBytes} bytes`);
  else if (checks.problems.length < PROBLEMS_MAX) checks.end();
  const { problems, header, counts, bytes, mcps, secretNames } = checks;
  if (problems.length > 0 || !header) return { problems };
  return { problems: undefined, header, counts, bytes, mcps, secretNames };
}

/** Yields at most a number of bytes; calls `onTooLong` if there are more. */
async function* bounded(
  source: AsyncIterable<Uint8Array>,
  bytesMax: number,
  onTooLong: () => void,
): AsyncGenerator<Uint8Array> {
  let total = 0;
  for await (const piece of source) {
    total += piece.length;
    if (total > bytesMax) return onTooLong();
    yield piece;
  }
}

interface CheckOptions {
  /** Sentences about problems with the limits of a tenant. */
  readonly limitProblems: (limits: JsonObject) => readonly string[];
  readonly limits: Pick<Limits, (typeof serverLimits)[ValueKind]>;
}

const AUTHOR_UNITS_MAX = 1_000;
/** How far the clock of the machine that wrote the file may be ahead. */
const AHEAD_MS_MAX = 24 * 60 * 60 * 1000;

/** The order of sections; `end` is the last line. */
const order = ["content", "change", "secret", ...valueKinds, "end"] as const satisfies (keyof typeof lineStarts)[];

const nothingStored = { server: "", keys: 0, bytes: 0 };

/** Checks the lines of a file in order, and stores what later lines are compared with. */
class TenantFileChecks {
  header: TenantFileHeader | undefined;
  bytes = 0;
  /** The value of the variable `mcps`. */
  mcps: Cid | undefined;
  readonly problems: Problem[] = [];
  readonly secretNames: string[] = [];
  /** The number of the current line. */
  #line = 0;
  readonly #into: Into;
  readonly #options: CheckOptions;
  readonly #digest = createHash("sha256");
  readonly #counts = { content: 0, change: 0, secret: 0, end: 0, ...noValues() };
  #section = 0;
  /** The content, name or secret of the previous line. */
  #before = "";
  #valueBefore: Buffer = Buffer.alloc(0);
  /** The size of the values so far of the previous value's server. */
  #kept = nothingStored;
  #changedAt: string | null = null;
  /** True if part of the file could not be read. */
  #isPartial = false;

  constructor(into: Into, options: CheckOptions) {
    this.#into = into;
    this.#options = options;
  }

  get counts(): TenantFileCounts {
    const { content, change, secret, end: _end, ...values } = this.#counts;
    return { contents: content, changes: change, secrets: secret, ...values };
  }

  complain(code: string, message: string): void {
    this.problems.push({ code, message, severity: "error", ...(this.#line > 0 && { line: this.#line }) });
  }

  async takeLine({ number, bytes, isWhole }: Line, bytesMax: number): Promise<void> {
    this.#line = number;
    if (!bytes) return this.#leaveOut("line-too-long", `The line has more than ${bytesMax} bytes`);
    if (number === 1) return this.#takeHeader(bytes);
    if (isWhole) return this.#take(bytes);
    this.#leaveOut("cut-line", "The line is cut off: its end and the rest of the file are missing");
  }

  /** Reports a line that cannot be read. */
  #leaveOut(code: string, message: string): void {
    this.#isPartial = true;
    this.complain(code, message);
  }

  async #take(bytes: Uint8Array): Promise<void> {
    const start = Buffer.from(bytes.subarray(0, 16)).toString("latin1");
    const what = order.find((each) => start.startsWith(lineStarts[each]));
    if (this.#counts.end > 0) return this.complain("after-end", "Nothing may follow the line that ends the file");
    if (what !== "end") this.#hash(bytes);
    if (what === undefined) return this.complain("unknown-line", "This is not a line of a tenant's file");
    const section = order.indexOf(what);
    if (section < this.#section) {
      return this.complain("wrong-order", `A line of "${what}" follows one of "${order[this.#section]}"`);
    }
    if (section > this.#section) [this.#before, this.#valueBefore, this.#kept] = ["", Buffer.alloc(0), nothingStored];
    this.#section = section;
    const expected = this.counts;
    this.#counts[what] += 1;
    if (what === "content") return this.#takeContent(bytes);
    if (isValueKind(what)) return this.#takeValue(what, bytes);
    const value = shortLine(bytes);
    if (!isObject(value)) this.#malformed();
    else if (what === "change") await this.#takeChange(value, bytes);
    else if (what === "secret") this.#takeSecret(value, bytes);
    else this.#takeEnd(value, bytes, expected);
  }

  /** Parses the first line. Without a valid header, nothing that follows can be checked. */
  #takeHeader(bytes: Uint8Array): void {
    this.#hash(bytes);
    const value = shortLine(bytes);
    if (!isObject(value) || value["format"] !== FORMAT) {
      return this.complain("no-tenant-file", "This is not a file from `berth tenant export`");
    }
    const { format, version, berth, tenant, changedAt, limits } = value;
    if (version !== FORMAT_VERSION) {
      const found = JSON.stringify(version)?.slice(0, 40);
      const message = `The file has version ${found} and this Berth reads version ${FORMAT_VERSION}; import it with the Berth that wrote it, or a newer one`;
      return this.complain("other-version", message);
    }
    if (!isSame(bytes, JSON.stringify({ format, version, berth, tenant, changedAt, limits }))) this.#malformed();
    if (typeof tenant !== "string" || !isTenantName(tenant)) {
      this.complain("bad-name", "This is not the name of a tenant");
    }
    if (!isObject(limits)) this.complain("wrong-type", `"limits" must be an object`);
    else for (const wrong of this.#options.limitProblems(limits as JsonObject)) this.complain("bad-limit", wrong);
    if (changedAt !== null && !isTime(changedAt)) this.complain("bad-time", `"changedAt" must be a time, or null`);
    this.header = value as unknown as TenantFileHeader;
  }

  /** Runs the checks that need the whole file. */
  end(): void {
    if (!this.header) {
      if (this.problems.length === 0) this.complain("no-tenant-file", "The file is empty");
      return;
    }
    if (this.#counts.end === 0 && !this.#isPartial) {
      this.complain("cut-file", "The file is cut off: the line that ends it is missing");
    }
    if (this.header.changedAt !== this.#changedAt && this.problems.length === 0) {
      this.#line = 1;
      this.complain("wrong-time", `"changedAt" is not the time of the last change in the file`);
    }
  }

  async #takeContent(bytes: Uint8Array): Promise<void> {
    const content = readContent(bytes);
    if (!content) return this.#malformed();
    const { cid } = content;
    this.#follows(cid, false, `the content ${cid}`);
    if (!matches(cid, content.bytes)) return this.complain("wrong-content", `The bytes do not match ${cid}`);
    if (isStructure(cid)) {
      const wrong = structureProblem(content.bytes);
      if (wrong !== undefined) this.complain("bad-structure", `The structure ${cid} cannot be stored: ${wrong}`);
    }
    this.bytes += content.bytes.length;
    await this.#into.put(content);
  }

  async #takeChange(value: Record<string, unknown>, bytes: Uint8Array): Promise<void> {
    const { change: kind, name, cid, at, by } = value;
    const isRight =
      typeof name === "string" && (cid === null || typeof cid === "string") && isTime(at) && typeof by === "string";
    if (!isRight) return this.#malformed();
    if (!isKind(kind)) {
      return this.complain("unknown-kind", `There are no names of the kind ${JSON.stringify(kind)?.slice(0, 40)}`);
    }
    const change: NamedChange = { kind, name, cid, changedAt: Date.parse(at), by };
    if (!isSame(bytes, changeLine(change))) this.#malformed();
    const wrongName = nameProblem(kind, name);
    if (wrongName !== undefined) this.complain("bad-name", wrongName);
    if (change.changedAt > Date.now() + AHEAD_MS_MAX) {
      this.complain("future-time", `The change is dated ${at}, which is in the future by the clock of this machine`);
    }
    if (by.length > AUTHOR_UNITS_MAX) this.complain("bad-author", `"by" has more than ${AUTHOR_UNITS_MAX} characters`);
    this.#follows(`${kind} ${name}`, true, `the ${kind} ${JSON.stringify(name.slice(0, 100))}`);
    if (cid !== null) await this.#checkMeaning(kind, name, cid);
    if (this.#changedAt === null || at > this.#changedAt) this.#changedAt = at;
    if (kind === "variable" && name === "mcps") this.mcps = cid ?? undefined;
    await this.#into.add(change);
  }

  async #checkMeaning(kind: NamedChange["kind"], name: string, cid: Cid): Promise<void> {
    const bytes = isCid(cid) ? await this.#into.content(cid) : undefined;
    if (!bytes) {
      return this.complain(
        "missing-content",
        `The name refers to ${cid.slice(0, 100)}, which the file does not contain`,
      );
    }
    if (kind === "variable") this.#checkSize(name, bytes.length);
    const has = async (each: Cid): Promise<boolean> => (await this.#into.content(each)) !== undefined;
    const wrong = await meaningProblem(kind, { cid, bytes }, has);
    if (wrong !== undefined)
      this.complain("wrong-content", `The name refers to ${cid}, which is not a ${kind}: ${wrong}`);
  }

  #checkSize(variable: string, bytes: number): void {
    const bytesMax = entryBounds[variable === "mcps" ? "mcpsBytes" : "variableBytes"];
    if (bytes <= bytesMax) return;
    const what = `The variable ${JSON.stringify(variable.slice(0, 100))} has ${bytes} bytes`;
    this.complain("too-large", `${what}, and at most ${bytesMax} can be saved`);
  }

  #takeSecret({ secret }: Record<string, unknown>, bytes: Uint8Array): void {
    if (typeof secret !== "string" || !isSame(bytes, JSON.stringify({ secret }))) this.#malformed();
    else if (nameFault(secret) !== undefined) this.complain("bad-name", "This is not the name of a secret");
    else {
      this.#follows(secret, false, `the secret "${secret}"`);
      this.secretNames.push(secret);
    }
  }

  async #takeValue(kind: ValueKind, bytes: Uint8Array): Promise<void> {
    const { valueKeyBytes, valueBytes } = valueBounds;
    // JSON in a value may be escaped at each quote, and a key everywhere.
    const lineBytesMax = 2 * valueBytes + ESCAPED_BYTES * valueKeyBytes + SHORT_LINE_BYTES;
    if (bytes.length > lineBytesMax) {
      return this.complain("too-large", `A line of ${kind} has at most ${lineBytesMax} bytes`);
    }
    const kept = readValue(kind, bytes);
    if (!kept) return this.#malformed();
    const { server, key, version, changedAt } = kept;
    const wrong = serverNameProblem(server) ?? keyProblem(kind, key) ?? valueProblem(kind, kept.isJson, kept.value);
    if (wrong !== undefined) this.complain(`bad-${kind}`, `This cannot be stored as ${kind}: ${wrong}`);
    if (Math.max(version, changedAt) > Date.now() + AHEAD_MS_MAX) {
      this.complain("future-time", "The version or the time is in the future by the clock of this machine");
    }
    const place = Buffer.from(`${server}\0${key}`);
    const order = Buffer.compare(place, this.#valueBefore);
    const what = `the key ${JSON.stringify(key.slice(0, 100))} of ${JSON.stringify(server.slice(0, 100))}`;
    if (order === 0) this.complain("duplicate", `${what} appears twice`);
    if (order < 0) this.complain("wrong-order", `${what} is out of order`);
    this.#valueBefore = place;
    this.#checkRoom(kept);
    // An invalid file is not published, and a duplicate could not even be staged.
    if (this.problems.length === 0) await this.#into.addValue(kept);
  }

  #checkRoom({ kind, server, key, value }: ServerValue): void {
    const { valuesPerServer } = valueBounds;
    const limit = serverLimits[kind];
    const bytesPerServer = this.#options.limits[limit];
    if (this.#kept.server !== server) this.#kept = { ...nothingStored, server };
    const before = this.#kept;
    const { keys, bytes } = (this.#kept = {
      server,
      keys: before.keys + 1,
      bytes: before.bytes + Buffer.byteLength(key) + value.length,
    });
    const isNew = before.keys <= valuesPerServer && before.bytes <= bytesPerServer;
    if (!isNew || (keys <= valuesPerServer && bytes <= bytesPerServer)) return;
    const most = `${valuesPerServer} keys and ${bytesPerServer} bytes`;
    this.complain("too-large", `The server "${server}" has more than ${most} of ${kind} (${limitVariable(limit)})`);
  }

  #takeEnd({ end, sha256 }: Record<string, unknown>, bytes: Uint8Array, expected: TenantFileCounts): void {
    const counts = JSON.stringify(expected);
    if (JSON.stringify(end) !== counts && !this.#isPartial) {
      this.complain("wrong-count", `The counts at the end do not match the lines: the file has ${counts}`);
    }
    const digest = this.#digest.digest("hex");
    if (sha256 !== digest && !this.#isPartial) {
      this.complain("wrong-digest", "The file was changed after it was written: its digest does not match");
    }
    if (!isSame(bytes, JSON.stringify({ end, sha256 }))) this.#malformed();
  }

  /** Lines of one section are sorted, so that duplicates are found. */
  #follows(text: string, mayRepeat: boolean, what: string): void {
    if (text === this.#before && !mayRepeat) this.complain("duplicate", `${what} appears twice`);
    else if (text < this.#before) this.complain("wrong-order", `${what} is out of order`);
    this.#before = text;
  }

  #malformed(): void {
    this.complain("malformed-line", "The line is not written as `berth tenant export` writes it");
  }

  #hash(bytes: Uint8Array): void {
    this.#digest.update(bytes).update("\n");
  }
}

/** The most bytes of a line without content. */
const SHORT_LINE_BYTES = 64 * 1024;

/** Undefined for a line that is not JSON, or is too long or too deep for a line without content. */
function shortLine(bytes: Uint8Array): unknown {
  if (bytes.length > SHORT_LINE_BYTES) return undefined;
  try {
    const value = JSON.parse(decoder.decode(bytes)) as unknown;
    return nestsTooDeep(value, bytes.length) ? undefined : value;
  } catch {
    return undefined;
  }
}

const CONTENT_START = /^\{"content":"([a-z0-9]{1,100})","(text|base64)":(?=")/;
const CONTENT_START_BYTES = 150;

/** Parsed by its fixed form, so that only one string is created from it. */
function readContent(line: Uint8Array): { cid: Cid; bytes: Uint8Array } | undefined {
  // Copies only the start: a CID cut out of the line would retain all of it.
  const head = Buffer.from(line.subarray(0, CONTENT_START_BYTES)).toString("latin1");
  const [start, cid, encoding] = CONTENT_START.exec(head) ?? [];
  if (start === undefined || cid === undefined || !isCid(cid)) return undefined;
  try {
    const text = decoder.decode(line);
    if (!text.endsWith(`"}`)) return undefined;
    const value: unknown = JSON.parse(text.slice(start.length, -1));
    if (typeof value !== "string") return undefined;
    const bytes = Buffer.from(value, encoding === "text" ? "utf8" : "base64");
    return contentLine(cid, bytes) === text ? { cid, bytes } : undefined;
  } catch {
    return undefined;
  }
}

/** A byte of a key may be written as `\\u0000`. */
const ESCAPED_BYTES = 6;

function isValueKind(what: string): what is ValueKind {
  return valueKinds.some((kind) => kind === what);
}

function readValue(kind: ValueKind, line: Uint8Array): ServerValue | undefined {
  let read: unknown;
  try {
    read = JSON.parse(decoder.decode(line));
  } catch {
    return undefined;
  }
  if (!isObject(read)) return undefined;
  const { [kind]: server, key, version, at, expires, json, base64 } = read;
  const text = json ?? base64;
  if (typeof server !== "string" || typeof key !== "string" || typeof text !== "string") return undefined;
  if (!Number.isSafeInteger(version) || (version as number) < 1 || !isTime(at)) return undefined;
  if (expires !== null && !isTime(expires)) return undefined;
  const kept: ServerValue = {
    kind,
    server,
    key,
    version: version as number,
    changedAt: Date.parse(at),
    expiresAt: expires === null ? null : Date.parse(expires),
    isJson: json !== undefined,
    value: Buffer.from(text, json === undefined ? "base64" : "utf8"),
  };
  return isSame(line, valueLine(kept)) ? kept : undefined;
}

/** A time in the notation of the file. */
function isTime(text: unknown): text is string {
  if (typeof text !== "string") return false;
  const time = Date.parse(text);
  return time >= 0 && new Date(time).toISOString() === text;
}

/** Returns true if a line is exactly this text: each line has only one notation. */
function isSame(bytes: Uint8Array, text: string): boolean {
  return Buffer.from(text).equals(bytes);
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** One line of a file, without its end. */
interface Line {
  /** From 1. */
  readonly number: number;
  /** Undefined for a line that is too long, of which nothing is stored. */
  readonly bytes: Uint8Array | undefined;
  /** False for the rest after the last line end. */
  readonly isWhole: boolean;
}

const NEWLINE = 10;

/** Splits pieces of input into lines, with at most one line in memory. */
async function* linesOf(source: AsyncIterable<Uint8Array>, lineBytesMax: number): AsyncGenerator<Line> {
  let parts: Uint8Array[] = [];
  let length = 0;
  let number = 1;
  const add = (part: Uint8Array): void => {
    length += part.length;
    if (length <= lineBytesMax) parts.push(part);
    else parts = [];
  };
  const take = (isWhole: boolean): Line => {
    const whole = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    const line = { number: number++, bytes: length <= lineBytesMax ? whole : undefined, isWhole };
    [parts, length] = [[], 0];
    return line;
  };

  for await (const piece of source) {
    let start = 0;
    for (let end = piece.indexOf(NEWLINE); end >= 0; end = piece.indexOf(NEWLINE, start)) {
      add(piece.subarray(start, end));
      yield take(true);
      start = end + 1;
    }
    if (start < piece.length) add(piece.subarray(start));
  }
  if (length > 0) yield take(false);
}

/** The problem with a name of that kind; undefined if there is none. */
function nameProblem(kind: NamedChange["kind"], name: string): string | undefined {
  if (kind === "variable") return variableNameProblem(name);
  if (kind !== "image") return serverNameProblem(name);
  return name === "applied" ? undefined : `there is no image ${JSON.stringify(name.slice(0, 100))}`;
}

function isKind(kind: unknown): kind is NamedChange["kind"] {
  return (kindsOfNames as readonly unknown[]).includes(kind);
}
