import { entryBounds } from "../entry/entry-bounds.ts";
import { loadPackageSet } from "../host/catalog/compile-once.ts";
import { rawBlock, type Block } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { yieldToCalls } from "../lib/event-loop.ts";
import { jsonProblems } from "../lib/json-source.ts";
import { prettyJsonYielding } from "../lib/pretty-json.ts";
import type { Problem } from "../lib/problem.ts";
import { PACKAGES, parsePackages, type PackageSet } from "../packages/package-set.ts";
import type { PackageSupply } from "./package-supply.ts";
import { parsePackageVariable, type ParsedPackages } from "./package-text.ts";
import type { ReviewedStore } from "./proposed-store.ts";

/** Dependencies of planning the variable `packages`. */
export interface PackagePlanning {
  readonly supply: PackageSupply;
  /** Returns true if a tenant may have packages. */
  readonly mayHave: (tenant: string) => boolean;
}

interface PackagesRequest {
  readonly store: ReviewedStore;
  readonly tenant: string;
}

/** A value of the variable, with everything that it needs. */
export interface PlannedPackages {
  /** The source to save: the author's, if it is complete. */
  readonly text: string;
  readonly before: PackageSet | undefined;
  /** Undefined if the variable is deleted or has problems. */
  readonly after: PackageSet | undefined;
  /** Tarballs that the tenant does not have yet. */
  readonly blocks: readonly Block[];
  readonly problems: readonly Problem[];
}

/** The source of the variable for a set: the same for equal sets. */
export async function packageSetText(set: PackageSet): Promise<string> {
  return `${await prettyJsonYielding(set, SET_LEVELS)}\n`;
}

/** The list of packages, and each package. */
const SET_LEVELS = 2;

/** Parses a value of the variable (null deletes it), resolves it if needed, and gets its tarballs. */
export async function planPackages(
  request: PackagesRequest,
  text: string | null,
  { supply, mayHave }: PackagePlanning,
): Promise<PlannedPackages> {
  const { store, tenant } = request;
  const before = await loadPackageSet(store, tenant);
  const nothing = { text: text ?? "", before, after: undefined, blocks: [], problems: [] };
  if (text === null) return nothing;
  if (!mayHave(tenant)) {
    const message = `The tenant "${tenant}" may not have npm packages; its operator can allow it with BERTH_TENANT_PACKAGES`;
    return { ...nothing, problems: [{ code: "packages-off", message, severity: "error" }] };
  }
  const problems = await jsonProblems(PACKAGES, text, tenant);
  if (problems.length > 0) return { ...nothing, problems: problems };
  await yieldToCalls();
  const parsed = await parsePackageVariable(parsePackages(text));
  if (parsed.kind === "wrong") return { ...nothing, problems: parsed.problems };
  try {
    const set = await resolveSet(parsed, before, tenant, supply);
    const wasSaved = parsed.kind === "set" && (await store.had(tenant, "variable", PACKAGES, rawBlock(text).cid));
    const supplied = await supply.supply(store, tenant, set, before, wasSaved ? parsed.set : undefined);
    const isComplete = parsed.kind === "set" && isSupplied(parsed.set, supplied.set);
    const complete = isComplete ? text : await packageSetText(supplied.set);
    const bytes = Buffer.byteLength(complete);
    if (bytes > entryBounds.variableBytes) {
      const message = `The set has ${bytes} bytes as text, and the limit is ${entryBounds.variableBytes}: leave out what no definition imports`;
      return { ...nothing, problems: [{ code: "too-large", message, severity: "error" }] };
    }
    return { text: complete, before, after: supplied.set, blocks: supplied.blocks, problems: [] };
  } catch (error) {
    if (!(error instanceof BerthError && error.code === "packages_refused")) throw error;
    return { ...nothing, problems: toProblems(error, parsed) };
  }
}

function resolveSet(
  parsed: Exclude<ParsedPackages, { kind: "wrong" }>,
  previous: PackageSet | undefined,
  tenant: string,
  supply: PackageSupply,
): Promise<PackageSet> | PackageSet {
  if (parsed.kind === "set") return parsed.set;
  return supply.resolve(tenant, { dependencies: parsed.dependencies, previous }, { mayBeKnown: true });
}

function isSupplied(written: PackageSet, supplied: PackageSet): boolean {
  return Object.entries(supplied.packages).every(
    ([place, { tarball, supplied: isMarked }]) =>
      written.packages[place]?.tarball === tarball && written.packages[place]?.supplied === isMarked,
  );
}

/** The rejection of a set, located at its package. */
function toProblems({ message, data }: BerthError, parsed: ParsedPackages): Problem[] {
  const problems = data?.["problems"] as readonly Problem[] | undefined;
  if (problems?.length) return problems.map(({ code, message: text, severity }) => ({ code, message: text, severity }));
  return [{ code: "packages-refused", message, severity: "error", pointer: pointerTo(data?.["package"], parsed) }];
}

function pointerTo(which: unknown, parsed: ParsedPackages): string {
  if (parsed.kind === "wrong" || typeof which !== "string") return "";
  if (parsed.kind === "wish") return step("/dependencies", which.slice(0, which.lastIndexOf("@")));
  const place = Object.entries(parsed.set.packages).find(
    ([, { name, version }]) => `${name}@${version}` === which,
  )?.[0];
  return place === undefined ? "" : step("/packages", place);
}

function step(pointer: string, name: string): string {
  return `${pointer}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}
