import { sourceBounds, type DefinitionSource } from "../discover/discovery.ts";
import { isAsset, isBinary } from "../discover/files/resolve.ts";
import { isSkillFile } from "../discover/files/skill-files.ts";
import { entryBounds } from "../entry/entry-bounds.ts";
import { serverNameProblem, variableNameProblem } from "../entry/fields.ts";
import { isOwnPath, detectLanguage } from "../image/definition.ts";
import type { Draft } from "../lib/draft.ts";
import { BerthError } from "../lib/errors.ts";
import type { Problem } from "../lib/problem.ts";
import { TenantCounts } from "../lib/tenant-counts.ts";
import { fixed } from "../limits/fixed.ts";
import { type Limits, limitVariable } from "../limits/limits.ts";
import type { Subject } from "./edits.ts";

export type DraftLimits = Pick<Limits, "sourceFileBytes" | "sourceBytes">;

/** The problems of a draft that are found before parsing it. */
export function checkDraft({ kind, name }: Subject, draft: Draft, limits: DraftLimits): Problem[] {
  const nameProblem = kind === "variable" ? variableNameProblem(name) : serverNameProblem(name);
  const problems = nameProblem === undefined ? [] : [fault("bad-name", nameProblem)];
  const paths = Object.keys(draft.files);
  if (!Object.hasOwn(draft.files, draft.entry)) {
    problems.push(fault("missing-file", `"${draft.entry}" is named as the main file, but the draft has no such file`));
  }
  if (kind !== "definition" && paths.length > 1) {
    problems.push(fault("too-many-files", `A ${kind} is one file, not ${paths.length}`));
  }
  return [
    ...problems,
    ...(kind === "definition"
      ? checkFiles(draft, limits)
      : checkSize(draft, entryBounds[kind === "variable" && name === "mcps" ? "mcpsBytes" : "variableBytes"])),
  ];
}

/** The language of a definition. */
export function languageOfDraft({ entry, files }: Draft): DefinitionSource["language"] {
  return detectLanguage(Object.hasOwn(files, entry) ? files[entry]! : "");
}

function checkSize(draft: Draft, bytesMax: number): Problem[] {
  return Object.values(draft.files)
    .map((text) => Buffer.byteLength(text))
    .filter((bytes) => bytes > bytesMax)
    .map((bytes) => fault("too-large", `It has ${bytes} bytes, and at most ${bytesMax} can be saved`));
}

function checkFiles({ entry, files }: Draft, limits: DraftLimits): Problem[] {
  const problems: Problem[] = [];
  const all = Object.entries(files);
  if (all.length > sourceBounds.sourceFiles) {
    problems.push(
      fault("too-many-files", `It has ${all.length} files, and a definition has at most ${sourceBounds.sourceFiles}`),
    );
  }
  let total = 0;
  for (const [file, text] of all) {
    const bytes = Buffer.byteLength(text, isBinary(file) ? "base64" : "utf8");
    total += bytes;
    if (isBinary(file) && Buffer.from(text, "base64").toString("base64") !== text) {
      const message = `${file} is a binary file: send it in base64, without line breaks`;
      problems.push({ ...fault("not-base64", message), file });
    }
    if (bytes > limits.sourceFileBytes) {
      const message = `${file} has ${bytes} bytes, and a file has at most ${limits.sourceFileBytes}`;
      problems.push({ ...fault("too-large", message), file });
    }
    if (!isOwnPath(file)) {
      const message = `"${file}" is not a path below the definition's folder, such as "lib/words.ts"`;
      problems.push({ ...fault("bad-path", message), file });
    }
    if (
      file === entry &&
      detectLanguage(text) === "shell" &&
      all.some(([other]) => other !== entry && !isSkillFile(other) && !isAsset(other))
    ) {
      problems.push({
        ...fault("shell-files", "A shell definition is a single file, with optional icons and files of its skills"),
        file,
      });
    }
  }
  if (total > limits.sourceBytes) {
    problems.push(
      fault(
        "too-large",
        `The files have ${total} bytes together, and at most ${limits.sourceBytes} are allowed (${limitVariable("sourceBytes")})`,
      ),
    );
  }
  return problems;
}

function fault(code: string, message: string): Problem {
  return { code, message, severity: "error" };
}

/** Concurrent saves and reviews of one tenant, most of which wait for the compiler. */
const bounds = fixed({ draftsPerTenant: 128 });

export type DraftQuotaLimits = Pick<Limits, "draftBytes" | "draftBytesPerTenant">;

/** After this time, a slot may be free again. */
const RETRY_AFTER_S = 1;

/**
 * Limits the memory of saves and reviews in progress: their drafts wait for the compiler, which works on one definition
 * at a time. It knows nothing of what they do.
 */
export class DraftQuota {
  readonly #limits: DraftQuotaLimits;
  readonly #drafts = new TenantCounts();
  readonly #codeUnits = new TenantCounts();

  constructor(limits: DraftQuotaLimits) {
    this.#limits = limits;
  }

  /** Rejects with `too_many_requests` at the limit. A limit of bytes never rejects the only draft that it counts. */
  async hold<T>(tenant: string, draft: Draft | null, work: () => Promise<T>): Promise<T> {
    const units = draft ? unitsOf(draft) : 0;
    this.#check(tenant, units);
    this.#drafts.add(tenant, 1);
    this.#codeUnits.add(tenant, units);
    try {
      return await work();
    } finally {
      this.#drafts.add(tenant, -1);
      this.#codeUnits.add(tenant, -units);
    }
  }

  #check(tenant: string, units: number): void {
    const { draftsPerTenant } = bounds;
    const { draftBytes, draftBytesPerTenant } = this.#limits;
    if (this.#drafts.of(tenant) >= draftsPerTenant) throw overLimit(`${draftsPerTenant} saves and reviews`);
    if (units === 0) return;
    const used = this.#codeUnits.of(tenant);
    if (used > 0 && used + units > draftBytesPerTenant) {
      throw overLimit(`drafts of ${draftBytesPerTenant} characters in this tenant`);
    }
    if (this.#codeUnits.all > 0 && this.#codeUnits.all + units > draftBytes) {
      throw overLimit(`drafts of ${draftBytes} characters`);
    }
  }
}

function unitsOf({ files }: Draft): number {
  let units = 0;
  for (const [path, text] of Object.entries(files)) units += path.length + text.length;
  return units;
}

function overLimit(limit: string): BerthError {
  const message = `${limit} are in progress; try again in ${RETRY_AFTER_S} s`;
  return new BerthError("too_many_requests", message, { data: { retryAfterSeconds: RETRY_AFTER_S } });
}
