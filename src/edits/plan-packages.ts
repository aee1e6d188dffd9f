import { entryBounds } from "../entry/entry-bounds.ts";
import { packageSetOf } from "../host/catalog/compile-once.ts";
import { rawBlock, type Block } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { nextTurn } from "../lib/event-loop.ts";
import { jsonProblems } from "../lib/json-source.ts";
import { prettyJsonYielding } from "../lib/pretty-json.ts";
import type { Problem } from "../lib/problem.ts";
import { PACKAGES, parsePackages, type PackageSet } from "../packages/package-set.ts";
import type { PackageSupply } from "./package-supply.ts";
import { readSaidPackages, type SaidPackages } from "./package-text.ts";
import type { ReviewedStore } from "./proposed-store.ts";

/** The parts that a plan for the variable `packages` needs. */
export interface PackagePlanning {
  readonly supply: PackageSupply;
  /** Tells if a tenant may have packages. */
  readonly mayHave: (tenant: string) => boolean;
}

interface PackagesRequest {
  readonly store: ReviewedStore;
  readonly tenant: string;
}

/** A value of the variable, with everything that it needs. */
export interface PlannedPackages {
  /** The text to save: that of the author where it is complete. */
  readonly text: string;
  readonly before: PackageSet | undefined;
  /** Undefined where the variable is deleted, or has problems. */
  readonly after: PackageSet | undefined;
  /** Tarballs that the tenant does not hold yet. */
  readonly blocks: readonly Block[];
  readonly problems: readonly Problem[];
}

/** The text of the variable for a set: the same for the same set. */
export async function packageSetText(set: PackageSet): Promise<string> {
  return `${await prettyJsonYielding(set, SET_LEVELS)}\n`;
}

/** The lists of packages, and each package. */
const SET_LEVELS = 2;

/** Reads a value of the variable, null for none, has it resolved where it says only what is wanted, and gets its tarballs. */
export async function planPackages(
  request: PackagesRequest,
  text: string | null,
  { supply, mayHave }: PackagePlanning,
): Promise<PlannedPackages> {
  const { store, tenant } = request;
  const before = await packageSetOf(store, tenant);
  const nothing = { text: text ?? "", before, after: undefined, blocks: [], problems: [] };
  if (text === null) return nothing;
  if (!mayHave(tenant)) {
    const message =
      `The tenant "${tenant}" may not have npm packages; ` +
      "the operator of this Berth can allow it with BERTH_TENANT_PACKAGES";
    return { ...nothing, problems: [{ code: "packages-off", message, severity: "error" }] };
  }
  const wrong = await jsonProblems(PACKAGES, text, tenant);
  if (wrong.length > 0) return { ...nothing, problems: wrong };
  await nextTurn();
  const said = await readSaidPackages(parsePackages(text));
  if (said.kind === "wrong") return { ...nothing, problems: said.problems };
  try {
    const set = await setOf(said, before, tenant, supply);
    const wasSaved = said.kind === "set" && (await store.had(tenant, "variable", PACKAGES, rawBlock(text).cid));
    const supplied = await supply.supply(store, tenant, set, before, wasSaved ? said.set : undefined);
    const isComplete = said.kind === "set" && isSupplied(said.set, supplied.set);
    const whole = isComplete ? text : await packageSetText(supplied.set);
    const bytes = Buffer.byteLength(whole);
    if (bytes > entryBounds.variableBytes) {
      const message = `The set has ${bytes} bytes as text, and the limit is ${entryBounds.variableBytes}: leave out what no definition imports`;
      return { ...nothing, problems: [{ code: "too-large", message, severity: "error" }] };
    }
    return { text: whole, before, after: supplied.set, blocks: supplied.blocks, problems: [] };
  } catch (error) {
    if (!(error instanceof BerthError && error.code === "packages_refused")) throw error;
    return { ...nothing, problems: problemsIn(error, said) };
  }
}

function setOf(
  said: Exclude<SaidPackages, { kind: "wrong" }>,
  previous: PackageSet | undefined,
  tenant: string,
  supply: PackageSupply,
): Promise<PackageSet> | PackageSet {
  if (said.kind === "set") return said.set;
  return supply.resolve(tenant, { dependencies: said.dependencies, previous }, { mayBeKnown: true });
}

function isSupplied(written: PackageSet, supplied: PackageSet): boolean {
  return Object.entries(supplied.packages).every(
    ([place, { tarball, supplied: isMarked }]) =>
      written.packages[place]?.tarball === tarball && written.packages[place]?.supplied === isMarked,
  );
}

/** The refusal of a set, at the package that it is about. */
function problemsIn({ message, data }: BerthError, said: SaidPackages): Problem[] {
  const problems = data?.["problems"] as readonly Problem[] | undefined;
  if (problems?.length) return problems.map(({ code, message: text, severity }) => ({ code, message: text, severity }));
  return [{ code: "packages-refused", message, severity: "error", pointer: pointerTo(data?.["package"], said) }];
}

function pointerTo(which: unknown, said: SaidPackages): string {
  if (said.kind === "wrong" || typeof which !== "string") return "";
  if (said.kind === "wish") return step("/dependencies", which.slice(0, which.lastIndexOf("@")));
  const place = Object.entries(said.set.packages).find(([, { name, version }]) => `${name}@${version}` === which)?.[0];
  return place === undefined ? "" : step("/packages", place);
}

function step(pointer: string, name: string): string {
  return `${pointer}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}
