import { createHash } from "node:crypto";
import { isCid, isStructure, matches, type Cid } from "../../lib/cid.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import { nameFault } from "../../secrets/rules.ts";
import type { NamedChange, TenantStaging } from "../../store/tenant-copies.ts";
import { changeLine, lineStarts, type TenantFileCounts, type TenantFileHeader } from "./format.ts";
import { malformed, readHeader } from "./header.ts";
import { isKind, nameProblem } from "./names.ts";
import { isSame, isTime, readContent, shortLine } from "./parse-line.ts";
import { meaningProblem, structureProblem } from "./structures.ts";

export interface CheckOptions {
  /** Sentences about problems with the limits of a tenant. */
  readonly limitProblems: (limits: JsonObject) => readonly string[];
  readonly limits: { readonly sourceFiles: number; readonly variableBytes: number; readonly mcpsBytes: number };
}

const AUTHOR_UNITS_MAX = 1_000;
/** How far the clock of the machine that wrote the file may be ahead. */
const AHEAD_MS_MAX = 24 * 60 * 60 * 1000;

/** The order of sections; `end` is the last line. */
const order = ["content", "change", "secret", "end"] as const satisfies (keyof typeof lineStarts)[];

/** Takes the lines of a file one after the other, and remembers what later lines are compared with. */
export class TenantFileChecks {
  /** The number of the current line. */
  line = 0;
  header: TenantFileHeader | undefined;
  bytes = 0;
  /** The value of the variable `mcps`. */
  mcps: Cid | undefined;
  readonly problems: Problem[] = [];
  readonly secretNames: string[] = [];
  readonly #into: Pick<TenantStaging, "put" | "content" | "add">;
  readonly #options: CheckOptions;
  readonly #digest = createHash("sha256");
  readonly #counts = { content: 0, change: 0, secret: 0, end: 0 };
  #section = 0;
  /** The content, name or secret of the previous line. */
  #before = "";
  #changedAt: string | null = null;
  /** True when part of the file could not be read. */
  #isPartial = false;

  constructor(into: Pick<TenantStaging, "put" | "content" | "add">, options: CheckOptions) {
    this.#into = into;
    this.#options = options;
  }

  get counts(): TenantFileCounts {
    return { contents: this.#counts.content, changes: this.#counts.change, secrets: this.#counts.secret };
  }

  complain(code: string, message: string): void {
    this.problems.push({ code, message, severity: "error", ...(this.line > 0 && { line: this.line }) });
  }

  /** Notes a line that cannot be read. */
  leaveOut(code: string, message: string): void {
    this.#isPartial = true;
    this.complain(code, message);
  }

  takeHeader(bytes: Uint8Array): void {
    this.#hash(bytes);
    const { header, problems } = readHeader(bytes, this.#options.limitProblems);
    for (const { code, message } of problems) this.complain(code, message);
    this.header = header;
  }

  take(what: keyof typeof lineStarts | undefined, bytes: Uint8Array): void {
    if (this.#counts.end > 0) {
      this.complain("after-end", "Nothing may stand after the line that ends the file");
      return;
    }
    if (what !== "end") this.#hash(bytes);
    if (what === undefined) {
      this.complain("unknown-line", "This is no line of a tenant's file");
      return;
    }
    const section = order.indexOf(what);
    if (section < this.#section) {
      this.complain("wrong-order", `A line of "${what}" stands after one of "${order[this.#section]}"`);
      return;
    }
    if (section > this.#section) this.#before = "";
    this.#section = section;
    const expected = this.counts;
    this.#counts[what] += 1;
    if (what === "content") {
      this.#takeContent(bytes);
      return;
    }
    const value = shortLine(bytes);
    if (!isObject(value)) this.#malformed();
    else if (what === "change") this.#takeChange(value, bytes);
    else if (what === "secret") this.#takeSecret(value, bytes);
    else this.#takeEnd(value, bytes, expected);
  }

  /** Makes the checks that need the whole file. */
  end(): void {
    if (!this.header) {
      if (this.problems.length === 0) this.complain("no-tenant-file", "The file is empty");
      return;
    }
    if (this.#counts.end === 0 && !this.#isPartial) {
      this.complain("cut-file", "The file is cut: the line that ends it is missing");
    }
    if (this.header.changedAt !== this.#changedAt && this.problems.length === 0) {
      this.line = 1;
      this.complain("wrong-time", `"changedAt" is not the time of the last change in the file`);
    }
  }

  #takeContent(bytes: Uint8Array): void {
    const content = readContent(bytes);
    if (!content) {
      this.#malformed();
      return;
    }
    const { cid } = content;
    this.#follows(cid, false, `the content ${cid}`);
    if (!matches(cid, content.bytes)) {
      this.complain("wrong-content", `The bytes are not what ${cid} says`);
      return;
    }
    if (isStructure(cid)) {
      const wrong = structureProblem(content.bytes, this.#options.limits);
      if (wrong !== undefined) this.complain("bad-structure", `The structure ${cid} cannot be kept: ${wrong}`);
    }
    this.bytes += content.bytes.length;
    this.#into.put(content);
  }

  #takeChange(value: Record<string, unknown>, bytes: Uint8Array): void {
    const { change: kind, name, cid, at, by } = value;
    const isRight =
      typeof name === "string" && (cid === null || typeof cid === "string") && isTime(at) && typeof by === "string";
    if (!isRight) {
      this.#malformed();
      return;
    }
    if (!isKind(kind)) {
      this.complain("unknown-kind", `There are no names of the kind ${JSON.stringify(kind)?.slice(0, 40)}`);
      return;
    }
    const change: NamedChange = { kind, name, cid, changedAt: Date.parse(at), by };
    if (!isSame(bytes, changeLine(change))) this.#malformed();
    const wrongName = nameProblem(kind, name);
    if (wrongName !== undefined) this.complain("bad-name", wrongName);
    if (change.changedAt > Date.now() + AHEAD_MS_MAX) {
      this.complain("future-time", `The change is of ${at}, which is still to come by the clock of this machine`);
    }
    if (by.length > AUTHOR_UNITS_MAX) this.complain("bad-author", `"by" has more than ${AUTHOR_UNITS_MAX} characters`);
    this.#follows(`${kind} ${name}`, true, `the ${kind} ${JSON.stringify(name.slice(0, 100))}`);
    if (cid !== null) this.#checkMeaning(kind, name, cid);
    if (this.#changedAt === null || at > this.#changedAt) this.#changedAt = at;
    if (kind === "variable" && name === "mcps") this.mcps = cid ?? undefined;
    this.#into.add(change);
  }

  #checkMeaning(kind: NamedChange["kind"], name: string, cid: Cid): void {
    const bytes = isCid(cid) ? this.#into.content(cid) : undefined;
    if (!bytes) {
      this.complain("missing-content", `The name stands for ${cid.slice(0, 100)}, which the file does not have`);
      return;
    }
    if (kind === "variable") this.#checkSize(name, bytes.length);
    const wrong = meaningProblem(kind, { cid, bytes }, (each) => this.#into.content(each) !== undefined);
    if (wrong !== undefined)
      this.complain("wrong-content", `The name stands for ${cid}, which is no ${kind}: ${wrong}`);
  }

  #checkSize(variable: string, bytes: number): void {
    const { mcpsBytes, variableBytes } = this.#options.limits;
    const isMcps = variable === "mcps";
    const bytesMax = isMcps ? mcpsBytes : variableBytes;
    if (bytes <= bytesMax) return;
    const limit = isMcps ? "BERTH_MCPS_BYTES" : "BERTH_VARIABLE_BYTES";
    const what = `The variable ${JSON.stringify(variable.slice(0, 100))} has ${bytes} bytes`;
    this.complain("too-large", `${what}, and at most ${bytesMax} can be saved (${limit})`);
  }

  #takeSecret({ secret }: Record<string, unknown>, bytes: Uint8Array): void {
    if (typeof secret !== "string" || !isSame(bytes, JSON.stringify({ secret }))) this.#malformed();
    else if (nameFault(secret) !== undefined) this.complain("bad-name", "This is no name of a secret");
    else {
      this.#follows(secret, false, `the secret "${secret}"`);
      this.secretNames.push(secret);
    }
  }

  #takeEnd({ end, sha256 }: Record<string, unknown>, bytes: Uint8Array, expected: TenantFileCounts): void {
    const counts = JSON.stringify(expected);
    if (JSON.stringify(end) !== counts && !this.#isPartial) {
      this.complain("wrong-count", `The file ends with other counts than it has lines: it has ${counts}`);
    }
    const digest = this.#digest.digest("hex");
    if (sha256 !== digest && !this.#isPartial) {
      this.complain("wrong-digest", "The file was changed after it was written: its digest is another one");
    }
    if (!isSame(bytes, JSON.stringify({ end, sha256 }))) this.#malformed();
  }

  /** Lines of one section are sorted, so that duplicates show. */
  #follows(text: string, mayRepeat: boolean, what: string): void {
    if (text === this.#before && !mayRepeat) this.complain("duplicate", `${what} stands here a second time`);
    else if (text < this.#before) this.complain("wrong-order", `${what} stands after what comes later`);
    this.#before = text;
  }

  #malformed(): void {
    this.complain(malformed.code, malformed.message);
  }

  #hash(bytes: Uint8Array): void {
    this.#digest.update(bytes).update("\n");
  }
}
