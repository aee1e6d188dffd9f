import type { Review } from "../contract/review.ts";
import { readTenantPackages, type PackageRequest } from "../edits/package-edits.ts";
import { BerthError } from "../lib/errors.ts";
import { printable } from "../lib/printable.ts";
import { PACKAGES } from "../packages/package-set.ts";
import { printProblems } from "./print-problems.ts";
import { printJson } from "./print.ts";
import { rights, saved, withCore } from "./with-core.ts";
import { checkTenant, type TenantDataOptions, withStore } from "./with-store.ts";

export interface ChangeOptions extends TenantDataOptions {
  /** Only shows what the change would do. */
  readonly review?: boolean;
  /** Saves what breaks callers, too. */
  readonly allowBreaking?: boolean;
}

const BY_COMMAND = "command";

/** `berth packages list`: the packages that definitions of a tenant may import, and all that these need. */
export function listPackages(options: TenantDataOptions & { readonly json?: boolean }): Promise<number> {
  return withStore(options, async (store) => {
    await checkTenant(store, options.tenant);
    const { cid, npm, packages } = await readTenantPackages(store, options.tenant);
    if (options.json) {
      printJson({ cid, ...(npm !== undefined && { npm }), packages }, 2);
      return 0;
    }
    for (const { name, version: number, supplied, range, direct, servers, moreServers = 0 } of packages) {
      const version = supplied ? `${number} (from no registry)` : number;
      const more = moreServers > 0 ? ` and ${moreServers} more` : "";
      const used = servers.length > 0 ? `  for ${servers.join(", ")}${more}` : "";
      console.log(printable(direct ? `${name} ${version} (${range ?? ""})${used}` : `  ${name} ${version}${used}`));
    }
    if (packages.length === 0) console.error(`The tenant ${options.tenant} has no packages.`);
    return 0;
  });
}

/** `berth packages add`, `remove` and `update`: a change, or with `review` only what it would do. */
export function changePackages(wishes: PackageRequest, options: ChangeOptions): Promise<number> {
  return withCore(options, async ({ packages }) => {
    if (options.review) {
      const { review } = await packages.review(options.tenant, wishes, rights);
      tell(review);
      return review.problems.some(({ severity }) => severity === "error") ? 1 : 0;
    }
    return saved(
      options,
      (allowBreaking) => packages.save(options.tenant, wishes, { by: BY_COMMAND, rights, allowBreaking }),
      tell,
    );
  });
}

/** `berth packages history`: every set that a tenant had, newest first. */
export function packageHistory(options: TenantDataOptions): Promise<number> {
  return withStore(options, async (store) => {
    await checkTenant(store, options.tenant);
    const versions = await store.history(options.tenant, "variable", PACKAGES, VERSIONS_MAX);
    for (const { cid, changedAt, by } of versions) {
      console.log(printable(`${cid ?? "deleted"}  ${new Date(changedAt).toISOString()}  by ${by}`));
    }
    if (versions.length === 0) console.error(`The tenant ${options.tenant} never had packages.`);
    return 0;
  });
}

const VERSIONS_MAX = 1_000;

/** `berth packages restore CID`: an earlier set, through the same checks. */
export function restorePackages(cid: string, options: ChangeOptions): Promise<number> {
  return withCore(options, async ({ edits }) => {
    const subject = { kind: "variable", name: PACKAGES } as const;
    const draft = await edits.version(options.tenant, subject, cid);
    if (!draft) throw new BerthError("not_found", `the packages of ${options.tenant} never were ${printable(cid)}`);
    if (options.review) {
      tell(await edits.review(options.tenant, subject, draft, rights));
      return 0;
    }
    return saved(
      options,
      (allowBreaking) => edits.save(options.tenant, subject, draft, { by: BY_COMMAND, rights, allowBreaking }),
      tell,
    );
  });
}

function tell({ packages = [], servers, problems }: Review): void {
  for (const { name, before, after } of packages) {
    if (before.length === 0) console.log(printable(`+ ${name} ${after.join(", ")}`));
    else if (after.length === 0) console.log(printable(`- ${name} ${before.join(", ")}`));
    else console.log(printable(`~ ${name} ${before.join(", ")} → ${after.join(", ")}`));
  }
  if (packages.length === 0) console.log("No package changes.");
  for (const { server, outcome, changes, bundleBytes } of servers) {
    const [was, would] = [bundleBytes?.before ?? 0, bundleBytes?.after ?? 0];
    const size = bundleBytes ? `, its bundle ${was} → ${would} bytes` : "";
    console.log(printable(`server ${server}: ${outcome}${size}`));
    for (const { effect, message } of changes) console.log(printable(`  ${effect}: ${message}`));
  }
  printProblems(problems);
}
